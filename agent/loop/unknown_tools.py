"""Answer calls to other programs' tools with the tool that does the same here. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TypeVar

from agent.client_names import own_name
from tools.text import word_set

_T = TypeVar("_T")

# (our tool, "" for none; its use for this purpose; the names of such tools elsewhere, in lower case and
# reduced to letters and digits)
_FOREIGN_TOOLS: tuple[tuple[str, str, frozenset[str]], ...] = (
    (
        "read",
        "read(file_path) shows a file or an image, and lists a directory.",
        word_set("view viewfile cat open openfile readfile readfiles readmanyfiles viewimage ls list listdir")
        | word_set("listdirectory listfiles tree notebookread"),
    ),
    (
        "write",
        "write(file_path, content) creates a file or replaces all of it.",
        word_set("create createfile writefile writetofile newfile savefile"),
    ),
    (
        "edit",
        "edit(file_path, old_string, new_string) replaces exact text, one change per call.",
        word_set("multiedit editfile strreplace strreplaceeditor strreplacebasededittool replace")
        | word_set(
            "replaceinfile searchreplace searchandreplace insert texteditor applypatch applydiff patch"
        ),
    ),
    (
        "edit",
        "edit(file_path, old_string, new_string) also edits a notebook: its JSON, as read shows it.",
        word_set("notebookedit editnotebook"),
    ),
    (
        "bash",
        "bash(command) runs a command line.",
        word_set("shell sh terminal run runcommand runshellcommand runinterminal execute executecommand")
        | word_set("runterminalcmd runterminalcommand codeexecution codeinterpreter containerexec")
        | word_set("execcommand exec localshell powershell python runpython repl"),
    ),
    (
        "bash",
        "Use bash(command): rm, mv, cp, mkdir, git, ...",
        word_set(
            "deletefile removefile movefile renamefile copyfile createdirectory createfolder mkdir rm mv cp"
        )
        | word_set("git gitstatus gitdiff gitlog gitcommit commit undoedit undo"),
    ),
    (
        "bash",
        "Commands have no standard input: use a pipe or a here-document in bash(command).",
        word_set("writestdin sendinput sendkeys"),
    ),
    (
        "bash",
        "You are notified when background commands end. To wait for something else, sleep in bash(command).",
        word_set("sleep wait"),
    ),
    (
        "bash",
        'bash(job="b1") returns the status and new output of a job; you are notified when it ends.',
        word_set("bashoutput taskoutput joboutput readoutput getoutput agentoutputtool"),
    ),
    (
        "bash",
        'bash(job="b1", kill=true) kills a background command.',
        word_set("killshell killbash taskstop jobkill killprocess"),
    ),
    (
        "web_fetch",
        "web_fetch(url) reads a page; the host may need the user's approval.",
        word_set("fetch fetchurl fetchwebpage readurl readpage browse browser urlcontext"),
    ),
    (
        "",
        "No tool controls a screen or a browser.",
        word_set("computer computeruse browseraction screenshot click scroll goto navigate"),
    ),
    (
        "",
        "Web search needs the rule web_search in the user's settings. Say what you look for, or name a page.",
        word_set("websearch googlewebsearch googlesearch searchweb"),
    ),
    (
        "grep",
        'grep(pattern, path, glob, output_mode="content") searches the contents of files.',
        word_set("search searchfiles searchfilecontent grepsearch codebasesearch searchcode ripgrep rg")
        | word_set("lsp gotodefinition findreferences findsymbol searchsymbols"),
    ),
    (
        "glob",
        "glob(pattern) finds files by name.",
        word_set("find findfiles filesearch findbyname globfiles"),
    ),
    (
        "todo",
        "todo(todos) keeps the to-do list; each call replaces the whole list.",
        word_set("todoread updateplan writetodos taskcreate taskupdate tasklist taskget plan")
        | word_set("updatetodolist managetodolist todolist"),
    ),
    (
        "task",
        "task(description, prompt, agent) delegates work to an agent.",
        word_set("dispatchagent subagent spawnagent newtask runsubagent"),
    ),
    (
        "ask_user",
        "ask_user(questions) asks the user questions with options.",
        word_set("askfollowupquestion question"),
    ),
    (
        "exit_plan",
        "Only the user can switch to plan mode; there exit_plan(plan) shows your plan.",
        word_set("enterplanmode"),
    ),
    (
        "",
        "Write the result as your reply and end your turn.",
        word_set("attemptcompletion finish submit done finalanswer messageuser sendmessage notifyuser reply"),
    ),
    (
        "",
        "Think in your reply; no tool is needed.",
        word_set("think sequentialthinking reason"),
    ),
    (
        "",
        "Lasting notes belong in AGENTS.md: edit it if the user wants that.",
        word_set("memory savememory updatememory remember creatememory"),
    ),
    (
        "",
        "Send the calls themselves, several in one reply.",
        word_set("multitooluseparallel parallel batch multitooluse"),
    ),
    (
        "",
        "No MCP server is connected.",
        word_set("usemcptool accessmcpresource listmcpresources listmcpresourcestool readmcpresource")
        | word_set("readmcpresourcetool mcp"),
    ),
)


_SAME_WORK = ("read(", "write(", "edit(", "grep(", "glob(", "task(", "bash(command)", "web_fetch(")


def same_tool(tools: Mapping[str, _T], name: str) -> _T | None:
    """Return the tool with a name, or the one that does the same as another program's tool of that name."""
    if (found := find_tool(tools, name)) is not None:
        return found
    plain = _plain(name)
    same = (tool for tool, way, names in _FOREIGN_TOOLS if plain in names and way.startswith(_SAME_WORK))
    return tools.get(next(same, ""))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def find_tool(tools: Mapping[str, _T], name: str) -> _T | None:
    """Return the tool with a name in any letter case, or the one that a client calls by that name.

    A name of a server's tool returns the tool that calls such tools.
    """
    wanted = own_name(name.removeprefix("functions.")).lower()
    found = next((tools[each] for each in tools if each.lower() == wanted), None)
    return tools.get("mcp") if found is None and wanted.startswith("mcp__") else found


def answer_unknown(name: str, tools: Collection[str]) -> str:
    """Return the answer to a call of a tool that is not among `tools`."""
    plain = "mcp" if name.lower().startswith("mcp__") else _plain(name).rstrip("0123456789")
    ways = (way for tool, way, names in _FOREIGN_TOOLS if plain in names and (not tool or tool in tools))
    near = [plain] if plain in tools else get_close_matches(name.lower(), tools, n=1, cutoff=0.75)
    way = next(ways, f"Did you mean {near[0]}?" if near else "")
    return f"There is no tool named {name!r}.{f' {way}' if way else ''} The tools are: {', '.join(tools)}."
