"""Questions about recorded sessions of other agents, and texts by which their answers are recognised.

They were written from facts drawn at random, in other words than theirs where there are any. The sessions are
not part of the project; MAKEROOM_RECORDINGS names their folder.
"""

from __future__ import annotations

from typing import NamedTuple


class RecordedQuestion(NamedTuple):
    """A question, the session that answers it, and a text that only the answering facts of it contain."""

    question: str
    session: str
    answer: str


RECORDED_QUESTIONS = (
    RecordedQuestion(
        "which error came because package.json was looked for in src after moving config.ts",
        "pi__before-compaction",
        "ENOENT: no such file or directory, open '/Users/dev/workspaces/pi-mono/packages",
    ),
    RecordedQuestion(
        "when did I ask to find more duplication in interactive-mode.ts",
        "pi__before-compaction",
        "tell me if there are any other htings we can make more concise",
    ),
    RecordedQuestion(
        "TimeDelta field loses a millisecond when serialized, what was the issue",
        "sweagent__b53556_marshmallow-code__marshmallow-1867",
        "Output of this snippet is `344`",
    ),
    RecordedQuestion(
        "copilot review comment about loadSettingsFromFile with empty strategy",
        "cc-entire__a2b25ca9",
        "lacks the empty strategy fallback",
    ),
    RecordedQuestion(
        "which tests failed in github actions but passed locally",
        "cc-entire__a2b25ca9",
        "Expected status to show 'enabled' after re-enabling, got: Enabled (auto-commit)",
    ),
    RecordedQuestion(
        "where did I say the session picker and version check should go",
        "pi__before-compaction",
        "this this belongs in model-resolver",
    ),
    RecordedQuestion(
        "suggestion to check for an empty repo in one shared place instead of both strategies",
        "cc-entire__5a69ca08",
        "could we call 'IsEmptyRepository' inside common.go:OpenRepository",
    ),
    RecordedQuestion(
        "the directory layout I proposed for oauth, theme and tui when refactoring",
        "pi__before-compaction",
        "tools -> core/tools",
    ),
    RecordedQuestion(
        "summarizing transcripts that are too long, idea of splitting into sections",
        "cc-entire__b82405ba",
        "what would be a good strategy for really long transcripts",
    ),
    RecordedQuestion(
        "explain shows temporary checkpoints although no files were touched",
        "cc-entire__7f78a542",
        "They are shadow state reference points",
    ),
    RecordedQuestion(
        "plan for fixing enable in a freshly initialised repository without commits",
        "cc-entire__5a69ca08",
        'Fix: Empty repo "reference not found" error',
    ),
    RecordedQuestion(
        "review of backward compatibility for sessions in the old id format",
        "cc-entire__0d28c0d4",
        "Like what happens if I resume an old session with the old format",
    ),
    RecordedQuestion(
        "background ssh connection to the router failed", "cc-mclaude__ff59cfd2", "SSH into slate router"
    ),
    RecordedQuestion(
        "is there anything secret on drive E",
        "cc-mclaude__3cfce0ff",
        "check what's on the E: drive to verify it's just rEFInd",
    ),
    RecordedQuestion(
        "was Defender real-time protection off",
        "cc-mclaude__c76e5be5",
        "Real-time protection is disabled but antivirus is enabled",
    ),
    RecordedQuestion(
        "list of vulnerabilities found in the Windows audit",
        "cc-mclaude__3cfce0ff",
        "WINDOWS SECURITY AUDIT REPORT",
    ),
    RecordedQuestion(
        "why does fsck report missing objects that are not in any pack",
        "cc-entire__03a1382e",
        "these are phantom references",
    ),
    RecordedQuestion(
        "optional enhancements for the router: bigger DNS cache and VPN monitoring",
        "cc-mclaude__ff59cfd2",
        "Increase DNS cache from 1000 to 5000 entries",
    ),
    RecordedQuestion(
        "why did auto-commit stop committing code while metadata was still written",
        "cc-entire__0442a060",
        "what could have caused the auto-commits to stop working",
    ),
    RecordedQuestion(
        "order in which the stacked pull requests must be merged",
        "cc-entire__79e9becd",
        "I can see there are several stacked PRs",
    ),
    RecordedQuestion(
        "is the agent display name stored in metadata or can Type be renamed",
        "cc-entire__79e9becd",
        "But maybe we should call it `DisplayName()` instead of `Type()`",
    ),
    RecordedQuestion(
        "helper that tells a known agent type from the generic fallback",
        "cc-entire__e8106766",
        "isSpecificAgentType returns true if the agent type is a known, specific value",
    ),
    RecordedQuestion(
        "import of the signing key into gpg on Windows and trust level",
        "cc-mclaude__c76e5be5",
        "The key is now in Windows GPG",
    ),
    RecordedQuestion(
        "hooks in the test repository fail because main.go is not found in local dev",
        "cc-entire__85f99978",
        "the git hooks installed in the test repo use `go run ./cmd/entire/main.go`",
    ),
    RecordedQuestion(
        "lint fix for unused context parameter in windows file removal retry",
        "cp-azure-dev__129b714a",
        "WithMaxRetries(10, backoff), func(_ context.Context) error",
    ),
    RecordedQuestion(
        "options for setting up a status line without bashrc",
        "cc-mclaude__3bd9cf18",
        "The statusline agent couldn't find your shell configuration files",
    ),
    RecordedQuestion(
        "commits found on the shadow branch though the user touched nothing",
        "cc-entire__7f78a542",
        "there ARE commits on the shadow branch `entire/ba9ae1a`",
    ),
    RecordedQuestion(
        "merging the text output checkpoint branch into the summaries branch",
        "cc-entire__b82405ba",
        "Merge attribution features with AI summary generation",
    ),
    RecordedQuestion(
        "pre-commit hook could not find python, full path fix",
        "cc-mclaude__3cfce0ff",
        "/c/Python314/python.exe",
    ),
    RecordedQuestion(
        "all usages of cwd versus repo root for the claude project dir",
        "cc-entire__0442a060",
        "This is getting the agent's session directory. Let me check what GetSessionDir does",
    ),
    RecordedQuestion(
        "which ports were shut down on LEGION",
        "cc-mclaude__3cfce0ff",
        "COMPREHENSIVE SECURITY RESPONSE REPORT",
    ),
    RecordedQuestion(
        "raise the number of checkpoints shown in branch view",
        "cc-entire__7f78a542",
        "const branchCheckpointsLimit = 100",
    ),
    RecordedQuestion(
        "how can projectHash be extracted from a gemini transcript",
        "cc-entire__aa4038a5",
        "Let me also look at where `projectHash` appears in Gemini transcripts",
    ),
    RecordedQuestion(
        "which hunks of manual_commit_logs.go belong to the type change",
        "cc-entire__c35cf82b",
        "So I need to stage hunks 3 and 4, skip hunks 1 and 2",
    ),
    RecordedQuestion(
        "how does the katy program seed its random number generator",
        "sweagent__3b6961_katy",
        "The seed is calculated using a hash on the flag",
    ),
    RecordedQuestion(
        "plan for RemoveAll that retries on windows and isolating config in tests",
        "cp-azure-dev__129b714a",
        "retries transient Windows sharing and access-denied errors",
    ),
    RecordedQuestion(
        "code that shows the session selector and resumes a session",
        "pi__before-compaction",
        "new SessionSelectorComponent(",
    ),
    RecordedQuestion(
        "integration test for manual commit attribution with user comments",
        "cc-entire__9d7a9d52",
        "tests the full attribution calculation flow",
    ),
    RecordedQuestion(
        "status test with only local settings",
        "cc-entire__a2b25ca9",
        "Should not show Project settings when only local exists",
    ),
    RecordedQuestion(
        "version of blocky running", "cc-mclaude__c76e5be5", "Version v0.23   Build time 20240106-205506"
    ),
    RecordedQuestion(
        "why restoreAgentSession uses the repository root",
        "cc-entire__c35cf82b",
        "Use repo root instead of CWD because Claude stores sessions per-repo",
    ),
    RecordedQuestion(
        "how lanes are assigned to sessions in the timeline",
        "cc-entire__43b2bd6e",
        "Assign a new lane - active session gets lane 1 priority",
    ),
    RecordedQuestion(
        "documentation added to CLAUDE.md on repo root and current directory",
        "cc-entire__0442a060",
        "Always use repo root (not `os.Getwd()`) when working with git-relative path",
    ),
    RecordedQuestion(
        "commits for ENT-221 about the session state machine",
        "cc-entire__03a1382e",
        "Consolidate session state types and simplify transcript tracking",
    ),
    RecordedQuestion(
        "how far back is git history scanned for checkpoints",
        "cc-entire__7f78a542",
        "const commitScanLimit = 500",
    ),
    RecordedQuestion(
        "commit that displays github repository data on a page",
        "cc-entire__0442a060",
        "Fetch repository information from GitHub and show them",
    ),
    RecordedQuestion(
        "token usage including subagents, where is it calculated",
        "cc-entire__eb4bcc15",
        "CalculateTotalTokenUsage calculates token usage for a turn, including subagents",
    ),
    RecordedQuestion(
        "diff that moves transcript condensing into the summarise package",
        "cc-entire__b82405ba",
        "Build condensed transcript for summarisation",
    ),
    RecordedQuestion(
        "copy command for the last assistant text",
        "pi__before-compaction",
        "Copied last agent message to clipboard",
    ),
    RecordedQuestion(
        "merging checkpoints of additional sessions without duplicates",
        "cc-entire__c35cf82b",
        "Use description from additional source if existing is empty",
    ),
    RecordedQuestion(
        "function that restores a session transcript from a file",
        "cc-entire__deeac353",
        "Get agent's session storage directory",
    ),
    RecordedQuestion(
        "router log of wifi station authentication",
        "cc-mclaude__ff59cfd2",
        "hostapd: wlan0: STA 80:4a:f2:4c:04:b2 IEEE 802.11: authenticated",
    ),
    RecordedQuestion(
        "git gc failed in the worktree, index rebuilt", "cc-entire__03a1382e", "Rebuild worktree 1 index"
    ),
    RecordedQuestion(
        "is the starting checkpoint type still referenced",
        "cc-entire__b42aaf1f",
        "check if `IncrementalTypeTaskStart` is still used anywhere",
    ),
    RecordedQuestion(
        "which tests cover the removed task start checkpoint",
        "cc-entire__b42aaf1f",
        "TestAutoCommitStrategy_SaveTaskCheckpoint_TaskStartCreatesEmptyCommit",
    ),
    RecordedQuestion(
        "session id of the broken day on the other machine",
        "cc-entire__0442a060",
        "So the session ID is `2026-01-08-45f30e78",
    ),
    RecordedQuestion(
        "remaining callers of TransformSessionID in tests",
        "cc-entire__0d28c0d4",
        'ag.TransformSessionID("abc123")',
    ),
    RecordedQuestion(
        "position of the transcript at the start in SaveContext",
        "cc-entire__eb4bcc15",
        "TranscriptUUIDAtStart",
    ),
    RecordedQuestion(
        "smoke test that enable installs the gemini hooks",
        "cc-entire__afb1dd35",
        "adds all required hooks to the correct file",
    ),
    RecordedQuestion(
        "conflicts when rebasing the token usage branch",
        "cc-entire__79e9becd",
        "there are merge conflicts with main",
    ),
)
