"""The definitions that a source text contains, in several languages."""

from compact.definitions import definitions, enclosing_definition
from tests.tables import each_row


@each_row(
    ("line", "name"),
    [
        ("def load_all(path):", "load_all"),
        ("    async def close(self) -> None:", "close"),
        ("class Store(Base):", "Store"),
        ("func (s *Store) Append(fact Fact) error {", "Append"),
        ("func main() {", "main"),
        ("type Session struct {", "Session"),
        ("export async function loadAll() {", "loadAll"),
        ("export default class App extends Base {", "App"),
        ("  private render(width: number): string {", "render"),
        ("export const parse = (text: string): Node => {", "parse"),
        ("const run = async (a) => a", "run"),
        ("interface Options {", "Options"),
        ("pub(crate) fn read_line<T>(input: T) -> Result<T> {", "read_line"),
        ("impl Store {", ""),
        ("public static void main(String[] args) {", "main"),
        ("static int do_it(struct foo *x) {", "do_it"),
        ("from enum import IntEnum", ""),
        ("class name here stands in prose", ""),
        ("    if (ready(x)) {", ""),
        ("  } else if (isDone(x)) {", ""),
        ("\tswitch len(parts) {", ""),
        ("    return wrap(inner) {", ""),
        ('describe("it", () => {', ""),
        ("  this.agent.subscribe((event) => {", ""),
        ("const total = compute(a)", ""),
        ("    def __init__(self):", ""),
        ("def " + "x" * 400 + "():", ""),
    ],
)
def test_a_line_defines_a_name_or_none(line, name):
    assert [found for _, found in definitions(f"\n{line}\n")] == ([name] if name else [])


def test_the_enclosing_definition_is_the_nearest_at_or_above_the_place():
    text = "top = 1\ndef first():\n    a = 1\n    b = 2\n\nclass Second:\n    c = 3\n"
    assert enclosing_definition(text, "b = 2") == "first"
    assert enclosing_definition(text, "class Second:\n    c") == "Second"
    assert enclosing_definition(text, "c = 3") == "Second"
    assert enclosing_definition(text, "top") == "" == enclosing_definition(text, "absent")
    assert enclosing_definition(text, "") == ""
