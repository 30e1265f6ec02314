"""A call of a tool that only other programs have is answered with what does the same here."""

from agent.loop.unknown_tools import answer_unknown, find_tool, same_tool
from tests.tables import each_row
from tools import BUILTIN

FOREIGN = {
    "read": "LS list_dir list_directory list_files view view_file view_image NotebookRead read_file"
    " read_files read_many_files open_file open cat tree ls",
    "edit": "MultiEdit NotebookEdit edit_notebook apply_patch apply_diff str_replace_based_edit_tool"
    " str_replace str_replace_editor edit_file replace replace_in_file search_replace search_and_replace"
    " insert patch",
    "write": "create create_file write_file write_to_file new_file save_file",
    "bash": "BashOutput TaskOutput AgentOutputTool KillShell KillBash TaskStop"
    " run_shell_command exec_command execute_command run_command run_terminal_cmd"
    " run_terminal_command run_in_terminal local_shell shell sh python run_python code_execution"
    " code_interpreter powershell repl container.exec terminal run execute exec",
    "grep": "search search_file_content codebase_search grep_search search_files search_code LSP"
    " go_to_definition find_references find_symbol search_symbols ripgrep rg",
    "glob": "find find_by_name file_search find_files glob_files",
    "todo": "TodoRead TaskCreate TaskUpdate TaskList TaskGet update_plan write_todos manage_todo_list"
    " update_todo_list todo_list plan",
    "task": "dispatch_agent subagent spawn_agent new_task runSubagent",
    "ask_user": "ask_followup_question question",
    "web_fetch": "fetch fetch_url fetch_webpage read_url read_page browse",
}


SHELL_TOOLS = "delete_file remove_file rename_file copy_file create_folder mkdir rm mv cp"


@each_row(("tool", "name"), [(tool, name) for tool in FOREIGN for name in FOREIGN[tool].split()])
def test_the_way_to_do_it_here_is_named_where_there_is_one(tool: str, name: str) -> None:
    told = answer_unknown(name, BUILTIN)
    assert told.startswith(f"There is no tool named {name!r}. ")
    assert f" {tool}(" in told
    assert told.endswith(f"The tools are: {', '.join(BUILTIN)}.")
    without = [each for each in BUILTIN if each != tool]
    assert f"{tool}(" not in answer_unknown(name, without)


@each_row(
    ("name", "way"),
    [
        ("text_editor_20250728", "edit(file_path"),
        ("bash_20250124", "Did you mean bash?"),
        *((name, "Use bash(command): rm") for name in SHELL_TOOLS.split()),
        ("write_stdin", "here-document"),
        ("computer", "No tool controls a screen"),
        ("create_directory", "Use bash(command): rm"),
        ("move_file", "Use bash(command): rm"),
        ("git_status", "Use bash(command): rm"),
        ("send_keys", "here-document"),
        ("sleep", "sleep in bash(command)"),
        ("browser_action", "No tool controls a screen"),
        ("google_web_search", "Web search needs the rule"),
        ("final_answer", "Write the result as your reply"),
        ("submit", "Write the result as your reply"),
        ("think", "Think in your reply"),
        ("sequentialthinking", "Think in your reply"),
        ("save_memory", "AGENTS.md"),
        ("update_memory", "AGENTS.md"),
        *((name, "No MCP server is connected.") for name in ("ListMcpResourcesTool", "ReadMcpResourceTool")),
        *((name, "No MCP server is connected.") for name in ("use_mcp_tool", "access_mcp_resource")),
        ("multi_tool_use.parallel", "several in one reply"),
        ("mcp__maps__route", "No MCP server is connected."),
    ],
)
def test_names_that_look_like_ours_do_not_lead_astray(name: str, way: str) -> None:
    assert way in answer_unknown(name, BUILTIN)
    assert "Did you mean" not in answer_unknown("fetch_rules", BUILTIN)


@each_row("name", ["WebSearch", "EnterPlanMode", "attempt_completion"])
def test_what_is_not_there_at_all_is_said(name: str) -> None:
    assert len(answer_unknown(name, BUILTIN)) > len(answer_unknown("Frobnicate", BUILTIN)) + 40


def test_a_slip_is_reported_and_another_letter_case_works() -> None:
    assert "Did you mean recall?" in answer_unknown("recal", BUILTIN)
    tools = {"read": 1, "mcp__Maps__route": 2, "todo": 3, "ask_user": 4, "exit_plan": 5, "web_fetch": 6}
    names = ("Read", "READ", "mcp__maps__Route", "rea", "TodoWrite", "AskUserQuestion", "ExitPlanMode")
    assert [find_tool(tools, name) for name in (*names, "WebFetch")] == [1, 1, 2, None, 3, 4, 5, 6]
    assert find_tool(tools, "functions.read") == 1


def test_no_name_has_two_answers_and_none_is_a_tool_of_ours() -> None:
    from agent.loop.unknown_tools import _FOREIGN_TOOLS

    names = [name for tools in _FOREIGN_TOOLS for name in tools.names]
    assert len(names) == len(set(names)) and not set(names) & set(BUILTIN)


@each_row(
    ("name", "same"),
    [
        ("bash", "bash"),
        ("Bash", "bash"),
        ("shell", "bash"),
        ("str_replace", "edit"),
        ("view_file", "read"),
        ("delete_file", None),  # a command that the model has to write
        ("computer", None),
        ("anything", None),
    ],
)
def test_a_tool_of_another_program_is_the_one_that_does_the_same(name: str, same: str | None) -> None:
    assert same_tool({each: each for each in BUILTIN}, name) == same
