#!/usr/bin/env bash
# The last step of action.yml: run the prompt in $PROMPT, and write the outputs of the step. Every input arrives in
# a variable, since a value in the text of a workflow would be executed.
set -uo pipefail

flags=(--output-format json --permission-mode "$MODE" --max-budget-usd "$BUDGET" --max-turns "$TURNS")
[ -z "${MODEL:-}" ] || flags+=(--model "$MODEL")
rules=()
while IFS= read -r rule; do
    [ -z "$rule" ] || rules+=("$rule")
done <<<"${RULES:-}"
[ "${#rules[@]}" -eq 0 ] || flags+=(--allowedTools "${rules[@]}")

result="$RUNNER_TEMP/makeroom-result.json"
makeroom="${MAKEROOM:-$RUNNER_TEMP/makeroom/bin/makeroom}"
printf '%s' "$PROMPT" | "$makeroom" -p "${flags[@]}" >"$result"
code=$?

delimiter="end-$RANDOM$RANDOM$RANDOM"
{
    echo "exit-code=$code"
    echo "result-file=$result"
    echo "result<<$delimiter"
    python3 -c '
import json, sys
result = json.load(open(sys.argv[1]))
print(result.get("result") or "; ".join(result.get("errors", [])))
' "$result"
    echo "$delimiter"
} >>"$GITHUB_OUTPUT"
exit "$code"
