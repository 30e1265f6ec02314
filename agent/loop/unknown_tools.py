"""Answer calls to other programs' tools with the tool that does the same here. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

from agent.client_names import own_name
from tools.text import word_set

_T = TypeVar("_T")


class _ForeignTools(NamedTuple):
    """Other programs' tools for one purpose.

    own    our tool for it, "" for none
    use    how to use that, or what to do instead
    names  in lower case and reduced to letters and digits
    same   our tool does the same work, so it can stand for them where only the kind of work counts
    """

    own: str
    use: str
    names: frozenset[str]
    same: bool = False


_FOREIGN_TOOLS: tuple[_ForeignTools, ...] = (
    _ForeignTools(
        "read",
        "read(file_path) shows a file or an image, and lists a directory.",
        word_set("view viewfile cat open openfile readfile readfiles readmanyfiles viewimage ls list listdir")
        | word_set("listdirectory listfiles tree notebookread"),
        same=True,
    ),
    _ForeignTools(
        "write",
        "write(file_path, content) creates a file or replaces all of it.",
        word_set("create createfile writefile writetofile newfile savefile"),
        same=True,
    ),
    _ForeignTools(
        "edit",
        "edit(file_path, old_string, new_string) replaces exact text, one change per call.",
        word_set("multiedit editfile strreplace strreplaceeditor strreplacebasededittool replace")
        | word_set(
            "replaceinfile searchreplace searchandreplace insert texteditor applypatch applydiff patch"
        ),
        same=True,
    ),
    _ForeignTools(
        "edit",
        "edit(file_path, old_string, new_string) also edits a notebook: its JSON, as read shows it.",
        word_set("notebookedit editnotebook"),
        same=True,
    ),
    _ForeignTools(
        "bash",
        "bash(command) runs a command line.",
        word_set("shell sh terminal run runcommand runshellcommand runinterminal execute executecommand")
        | word_set("runterminalcmd runterminalcommand codeexecution codeinterpreter containerexec")
        | word_set("execcommand exec localshell powershell python runpython repl"),
        same=True,
    ),
    _ForeignTools(
        "bash",
        "Use bash(command): rm, mv, cp, mkdir, git, ...",
        word_set(
            "deletefile removefile movefile renamefile copyfile createdirectory createfolder mkdir rm mv cp"
        )
        | word_set("git gitstatus gitdiff gitlog gitcommit commit undoedit undo"),
    ),
    _ForeignTools(
        "bash",
        "Commands have no standard input: use a pipe or a here-document in bash(command).",
        word_set("writestdin sendinput sendkeys"),
    ),
    _ForeignTools(
        "bash",
        "You are notified when background commands end. To wait for something else, sleep in bash(command).",
        word_set("sleep wait"),
    ),
    _ForeignTools(
        "bash",
        'bash(job="b1") returns the status and new output of a job; you are notified when it ends.',
        word_set("bashoutput taskoutput joboutput readoutput getoutput agentoutputtool"),
    ),
    _ForeignTools(
        "bash",
        'bash(job="b1", kill=true) kills a background command.',
        word_set("killshell killbash taskstop jobkill killprocess"),
    ),
    _ForeignTools(
        "web_fetch",
        "web_fetch(url) reads a page; the host may need the user's approval.",
        word_set("fetch fetchurl fetchwebpage readurl readpage browse browser urlcontext"),
        same=True,
    ),
    _ForeignTools(
        "",
        "No tool controls a screen or a browser.",
        word_set("computer computeruse browseraction screenshot click scroll goto navigate"),
    ),
    _ForeignTools(
        "",
        "Web search needs the rule web_search in the user's settings. Say what you look for, or name a page.",
        word_set("websearch googlewebsearch googlesearch searchweb"),
    ),
    _ForeignTools(
        "grep",
        'grep(pattern, path, glob, output_mode="content") searches the contents of files.',
        word_set("search searchfiles searchfilecontent grepsearch codebasesearch searchcode ripgrep rg")
        | word_set("lsp gotodefinition findreferences findsymbol searchsymbols"),
        same=True,
    ),
    _ForeignTools(
        "glob",
        "glob(pattern) finds files by name.",
        word_set("find findfiles filesearch findbyname globfiles"),
        same=True,
    ),
    _ForeignTools(
        "todo",
        "todo(todos) keeps the to-do list; each call replaces the whole list.",
        word_set("todoread updateplan writetodos taskcreate taskupdate tasklist taskget plan")
        | word_set("updatetodolist managetodolist todolist"),
    ),
    _ForeignTools(
        "task",
        "task(description, prompt, agent) delegates work to an agent.",
        word_set("dispatchagent subagent spawnagent newtask runsubagent"),
        same=True,
    ),
    _ForeignTools(
        "ask_user",
        "ask_user(questions) asks the user questions with options.",
        word_set("askfollowupquestion question"),
    ),
    _ForeignTools(
        "exit_plan",
        "Only the user can switch to plan mode; there exit_plan(plan) shows your plan.",
        word_set("enterplanmode"),
    ),
    _ForeignTools(
        "",
        "Write the result as your reply and end your turn.",
        word_set("attemptcompletion finish submit done finalanswer messageuser sendmessage notifyuser reply"),
    ),
    _ForeignTools(
        "",
        "Think in your reply; no tool is needed.",
        word_set("think sequentialthinking reason"),
    ),
    _ForeignTools(
        "",
        "Lasting notes belong in AGENTS.md: edit it if the user wants that.",
        word_set("memory savememory updatememory remember creatememory"),
    ),
    _ForeignTools(
        "",
        "Send the calls themselves, several in one reply.",
        word_set("multitooluseparallel parallel batch multitooluse"),
    ),
    _ForeignTools(
        "",
        "No MCP server is connected.",
        word_set("usemcptool accessmcpresource listmcpresources listmcpresourcestool readmcpresource")
        | word_set("readmcpresourcetool mcp"),
    ),
)


def same_tool(tools: Mapping[str, _T], name: str) -> _T | None:
    """Return the tool with a name, or the one that does the same as another program's tool of that name."""
    if (found := find_tool(tools, name)) is not None:
        return found
    plain = _plain(name)
    same = (each.own for each in _FOREIGN_TOOLS if each.same and plain in each.names)
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
    uses = (each.use for each in _FOREIGN_TOOLS if plain in each.names and each.own in ("", *tools))
    near = [plain] if plain in tools else get_close_matches(name.lower(), tools, n=1, cutoff=0.75)
    use = next(uses, f"Did you mean {near[0]}?" if near else "")
    return f"There is no tool named {name!r}.{f' {use}' if use else ''} The tools are: {', '.join(tools)}."
