"""What a sandboxed command may try to get out, each with the refusal that it has to meet.

As a program (`sandbox_escapes.py '<JSON of Place>'`) it tries them all, each in a process of its own, and
prints a JSON object: name -> the refusal, or what was reached.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
ESCAPES: dict[str, tuple[str, Callable[[], Any]]] = {}  # name -> (refusals that will do, attempt)
# Where things are: project, home, outside, and what is served there; see sandbox_process.py.
AT = SimpleNamespace()


def refused(*refusals: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register an attempt that must meet one of the refusals; its name, in words, is what it tries."""

    def register(attempt: Callable[[], Any]) -> Callable[[], Any]:
        ESCAPES[attempt.__name__.replace("_", " ")] = ("|".join(refusals), attempt)
        return attempt

    return register


def call(name: str, *values: Any) -> int:
    """A function of the C library. Raises OSError."""
    ctypes.set_errno(0)
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    answer: int = getattr(LIBC, name)(*plain)
    if answer == -1:
        raise OSError(ctypes.get_errno(), name)
    return answer


def kernel(x86: int, generic: int, *values: Any) -> int:
    """A system call by its number on x86-64, and on other machines. Raises OSError."""
    return call("syscall", x86 if X86 else generic, *values)


def write(path: str, text: str = "escaped", mode: str = "w") -> None:
    with open(path, mode) as file:
        file.write(text)


# --- Files outside of the project


@refused("EROFS")
def change_a_file_outside() -> None:
    write(f"{AT.outside}/kept", mode="a")


@refused("EROFS")
def create_a_file_outside() -> None:
    write(f"{AT.outside}/new", mode="x")


@refused("EROFS")
def write_through_a_link_to_outside() -> None:
    write(f"{AT.project}/leads-out", mode="a")


@refused("EROFS")
def truncate_a_file_outside() -> None:
    os.truncate(f"{AT.outside}/kept", 0)


@refused("EROFS")
def remove_a_file_outside() -> None:
    os.unlink(f"{AT.outside}/kept")


@refused("EROFS")
def make_a_folder_outside() -> None:
    os.mkdir(f"{AT.outside}/new")


@refused("EROFS")
def make_a_pipe_outside() -> None:
    os.mkfifo(f"{AT.outside}/new")


@refused("EROFS")
def serve_a_socket_outside() -> None:
    socket.socket(socket.AF_UNIX).bind(f"{AT.outside}/new")


@refused("EROFS")
def change_the_mode_of_a_file_outside() -> None:
    os.chmod(f"{AT.outside}/kept", 0o777)


@refused("EROFS")
def change_the_times_of_a_file_outside() -> None:
    os.utime(f"{AT.outside}/kept")


@refused("EROFS")
def set_an_attribute_outside() -> None:
    os.setxattr(f"{AT.outside}/kept", "user.a", b"a")


@refused("EROFS", "EXDEV", "ENOENT")
def link_an_unnamed_file_outside() -> None:
    fd = os.open(AT.project, os.O_TMPFILE | os.O_RDWR)
    os.link(f"/proc/self/fd/{fd}", f"{AT.outside}/new", follow_symlinks=True)


@refused("EROFS")
def open_an_unnamed_file_outside() -> None:
    os.open(AT.outside, os.O_TMPFILE | os.O_RDWR)


@refused("EXDEV")
def link_a_file_from_outside_into_the_project() -> None:
    os.link(f"{AT.outside}/kept", f"{AT.project}/linked")


@refused("EXDEV")
def link_a_file_of_a_cache_into_the_project() -> None:
    os.link(f"{AT.home}/.cache/built", f"{AT.project}/linked")


@refused("EXDEV")
def move_a_file_from_outside_into_the_project() -> None:
    os.rename(f"{AT.outside}/kept", f"{AT.project}/moved")


@refused("EROFS", "EBUSY")
def rename_the_project() -> None:
    os.rename(AT.project, f"{AT.project}-moved")


@refused("EROFS")
def change_what_a_shell_reads_when_it_starts() -> None:
    write(f"{AT.home}/.bashrc", mode="a")


@refused("EROFS")
def add_a_unit_to_the_service_manager_of_the_user() -> None:
    write(f"{AT.home}/.config/systemd/user/evil.service")


@refused("EROFS", "EACCES", "ENOENT")
def add_a_crontab() -> None:
    write("/var/spool/cron/crontabs/evil")


@refused("EROFS")
def change_what_our_own_shells_read() -> None:
    """The prelude of all commands, open ones too, is in the private directory of the session."""
    write(os.path.join(os.path.dirname(AT.scratch), "prelude"), mode="a")


@refused("EROFS", "EPERM")
def write_after_a_remount() -> None:
    LIBC.mount(None, b"/", None, 0x20 | 0x1000, None)
    write(f"{AT.outside}/new")


@refused("EROFS", "EACCES", "ENOENT")
def write_by_another_root_of_a_process() -> None:
    write(f"/proc/{os.getppid()}/root{AT.outside}/new")


# --- The project's own steering


@refused("EROFS")
def plant_a_hook() -> None:
    write(f"{AT.project}/.git/hooks/post-commit")


@refused("EROFS")
def change_the_configuration_of_git() -> None:
    write(f"{AT.project}/.git/config", mode="a")


@refused("EROFS")
def plant_a_hook_in_a_submodule() -> None:
    write(f"{AT.project}/.git/modules/lib/hooks/post-checkout")


@refused("EBUSY")
def move_the_folder_of_submodules_away() -> None:
    os.rename(f"{AT.project}/.git/modules", f"{AT.project}/.git/m2")


@refused("EBUSY")
def move_a_submodule_s_folder_away() -> None:
    os.rename(f"{AT.project}/.git/modules/lib", f"{AT.project}/.git/modules/l2")


@refused("EBUSY")
def move_git_away() -> None:
    os.rename(f"{AT.project}/.git", f"{AT.project}/git")


@refused("EBUSY", "EXDEV")
def exchange_the_configuration_of_git() -> None:
    write(f"{AT.project}/mine")
    names = f"{AT.project}/mine".encode(), f"{AT.project}/.git/config".encode()
    kernel(316, 276, -100, names[0], -100, names[1], 2)  # renameat2, RENAME_EXCHANGE


@refused("EBUSY")
def remove_the_folder_of_hooks() -> None:
    for entry in os.scandir(f"{AT.project}/.git/hooks"):
        try:
            os.unlink(entry.path)
        except OSError as error:
            assert error.errno == errno.EROFS
    os.rmdir(f"{AT.project}/.git/hooks")


@refused("EROFS")
def change_the_settings_of_this_program() -> None:
    write(f"{AT.project}/.makeroom/settings.toml", mode="a")


@refused("EROFS")
def change_the_memory_of_every_session() -> None:
    write(f"{AT.project}/AGENTS.md", mode="a")


@refused("EROFS")
def change_what_the_editor_runs() -> None:
    write(f"{AT.project}/.vscode/tasks.json", mode="a")


@refused("EROFS")
def change_what_ci_runs() -> None:
    write(f"{AT.project}/.github/workflows/ci.yml", mode="a")


@refused("EROFS")
def commit_in_a_worktree_whose_git_folder_is_outside() -> None:
    commit = [
        "git",
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "commit",
        "--allow-empty",
        "-qm",
        "a",
    ]
    said = subprocess.run(commit, cwd=f"{AT.project}/worktree", capture_output=True, text=True).stderr
    raise OSError(errno.EROFS if "Read-only file system" in said else 0, said)


# --- Secrets, records, sockets


@refused("EACCES")
def read_a_private_key() -> str:
    return open(f"{AT.home}/.ssh/id_rsa").read()


@refused("EACCES")
def list_the_folder_of_private_keys() -> list[str]:
    return os.listdir(f"{AT.home}/.ssh")


@refused("EACCES")
def read_a_token_in_the_home() -> str:
    return open(f"{AT.home}/.netrc").read()


@refused("EACCES")
def read_the_secrets_of_the_project() -> str:
    return open(f"{AT.project}/.env").read()


@refused("EACCES")
def read_a_secret_deep_in_the_project() -> str:
    return open(f"{AT.project}/build/apps/web/api/prod.env").read()


@refused("EACCES")
def read_the_settings_of_this_program_in_the_home() -> str:
    return open(f"{AT.home}/.config/makeroom/settings.toml").read()


@refused("EACCES")
def read_password_hashes() -> str:
    return open("/etc/shadow").read()


@refused("EACCES")
def list_the_folder_of_running_services() -> list[str]:
    return os.listdir("/run")


@refused("EACCES", "EPERM", "EBUSY", "EROFS")
def open_a_secret_to_its_owner() -> list[str]:
    os.chmod(f"{AT.home}/.ssh", 0o700)
    return os.listdir(f"{AT.home}/.ssh")


@refused("nothing")
def read_a_record_of_sessions() -> str:
    found = [
        name
        for place in (".transcripts", ".task_outputs")
        for name in os.listdir(f"{AT.project}/{place}")
        if name != ".gitignore"
    ]
    return "" if not found else str(found)


@refused("ENOENT")
def open_a_record_by_its_name() -> str:
    return open(f"{AT.project}/.transcripts/1.jsonl").read()


@refused("nothing")
def find_a_record_by_its_inode() -> str:
    walk = ((folder, name) for folder, _, names in os.walk(AT.project) for name in names)
    return " ".join(name for folder, name in walk if os.lstat(f"{folder}/{name}").st_ino == AT.record_inode)


@refused("EBUSY")
def remove_the_folder_of_records() -> None:
    os.rmdir(f"{AT.project}/.transcripts")


@refused("EBUSY")
def move_the_folder_of_records() -> None:
    os.rename(f"{AT.project}/.transcripts", f"{AT.project}/elsewhere")


@refused("EROFS")
def write_into_the_folder_of_records() -> None:
    write(f"{AT.project}/.transcripts/new")


@refused("EACCES", "ECONNREFUSED", "ENOENT")
def reach_a_socket_of_an_agent_outside() -> None:
    socket.socket(socket.AF_UNIX).connect(AT.socket)


@refused("ECONNREFUSED", "ENOENT", "EACCES")
def reach_a_socket_in_a_folder_for_temporary_files() -> None:
    socket.socket(socket.AF_UNIX).connect(AT.temporary_socket)


@refused("ECONNREFUSED")
def reach_an_abstract_socket() -> None:
    socket.socket(socket.AF_UNIX).connect("\0" + AT.abstract_socket)


@refused("EACCES", "ENOENT")
def reach_docker() -> None:
    socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock")


@refused("nothing")
def see_the_variables_that_lead_to_sockets() -> str:
    names = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "WSL_INTEROP", "DISPLAY", "XDG_RUNTIME_DIR")
    return " ".join(name for name in names if os.environ.get(name))


# --- Network


@refused("ECONNREFUSED", "ENETUNREACH")
def reach_a_server_of_this_machine() -> None:
    socket.create_connection(("127.0.0.1", AT.port), timeout=2)


@refused("ENETUNREACH")
def connect_to_the_internet() -> None:
    socket.create_connection(("1.1.1.1", 443), timeout=2)


@refused("ENETUNREACH")
def ask_a_name_server_by_udp() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"a", ("8.8.8.8", 53))


@refused("ENETUNREACH", "EAFNOSUPPORT", "EADDRNOTAVAIL")
def connect_by_ipv6() -> None:
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"a", ("2001:db8::1", 53))


@refused("EPERM", "EACCES", "ENETUNREACH")
def send_a_ping() -> None:
    kind = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    kind.sendto(b"\x08\0\0\0\0\0\0\0", ("8.8.8.8", 0))


@refused("EAFNOSUPPORT")
def open_a_packet_socket() -> None:
    socket.socket(17, socket.SOCK_RAW)


@refused("EAFNOSUPPORT")
def open_a_socket_to_the_hypervisor() -> None:
    socket.socket(40, socket.SOCK_STREAM)


@refused("EAFNOSUPPORT")
def open_a_socket_of_the_kernel_s_ciphers() -> None:
    socket.socket(38, socket.SOCK_SEQPACKET)


@refused("EPERM")
def add_an_address_to_an_interface() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8916, struct.pack("16sH2x4s16x", b"lo", socket.AF_INET, b"\x0a\0\0\x01"))


# --- Processes


@refused("ENOENT")
def enter_the_root_of_an_open_command() -> list[str]:
    return os.listdir(f"/proc/{AT.open_pid}/root")


@refused("ESRCH")
def signal_an_open_command() -> None:
    os.kill(AT.open_pid, 0)


@refused("ESRCH")
def signal_the_agent() -> None:
    os.kill(AT.agent_pid, 0)


@refused("EPERM")
def trace_the_spawner() -> None:
    call("ptrace", 16, 1, 0, 0)  # PTRACE_ATTACH


@refused("EPERM")
def write_into_the_spawner() -> None:
    buffer = ctypes.create_string_buffer(8)
    piece = struct.pack("PN", ctypes.addressof(buffer), 8)
    kernel(311, 271, 1, piece, 1, piece, 1, 0)  # process_vm_writev


@refused("EACCES", "EPERM")
def open_the_memory_of_the_spawner() -> None:
    write("/proc/1/mem", mode="r+")


@refused("EACCES", "EPERM")
def read_the_environment_of_the_spawner() -> str:
    return open("/proc/1/environ").read()


@refused("EACCES", "EPERM")
def open_a_descriptor_of_the_spawner() -> int:
    return os.open("/proc/1/fd/0", os.O_RDONLY)


@refused("EACCES", "EPERM")
def enter_the_folder_of_the_spawner() -> list[str]:
    return os.listdir("/proc/1/cwd")


@refused("EPERM", "EACCES")
def take_a_descriptor_of_the_spawner() -> int:
    return kernel(438, 438, kernel(434, 434, 1, 0), 3, 0)  # pidfd_open, pidfd_getfd


@refused("nothing")
def inherit_a_descriptor() -> str:
    return " ".join(fd for fd in AT.descriptors if int(fd) > 2)


@refused("EPERM", "ENOTTY", "EIO")
def type_into_the_terminal() -> None:
    fcntl.ioctl(0, 0x5412, b"x")  # TIOCSTI


@refused("ENXIO", "ENOENT", "EACCES")
def open_the_terminal() -> None:
    os.open("/dev/tty", os.O_RDWR)


# --- The kernel


@refused("EROFS")
def change_where_cores_go() -> None:
    write("/proc/sys/kernel/core_pattern", "|/bin/sh")


@refused("EROFS", "ENOENT", "EACCES")
def press_the_magic_key() -> None:
    write("/proc/sysrq-trigger", "h")


@refused("EROFS", "ENOENT", "EACCES")
def make_a_control_group() -> None:
    os.mkdir(
        "/sys/fs/cgroup/memory/evil" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup/evil"
    )


@refused("EROFS", "ENOENT", "EACCES")
def set_the_release_agent_of_a_control_group() -> None:
    write("/sys/fs/cgroup/memory/release_agent", "/bin/sh", mode="r+")


@refused("EPERM")
def mount_a_file_system() -> None:
    call("mount", b"tmpfs", b"/mnt", b"tmpfs", 0, None)


@refused("EPERM")
def unmount_what_hides_a_secret() -> None:
    call("umount2", f"{AT.home}/.ssh".encode(), 2)


@refused("EPERM")
def make_the_root_writable() -> None:
    attributes = struct.pack("=4Q", 0, 1, 0, 0)
    kernel(442, 442, -100, b"/", 0x8000, attributes, len(attributes))  # mount_setattr


@refused("EPERM")
def copy_a_mount() -> None:
    kernel(428, 428, -100, b"/", 1)  # open_tree, OPEN_TREE_CLONE


@refused("EPERM")
def open_a_new_file_system() -> None:
    kernel(430, 430, b"tmpfs", 0)  # fsopen


@refused("EPERM")
def move_a_mount() -> None:
    kernel(429, 429, -100, b"/proc", -100, b"/mnt", 0)


@refused("EPERM")
def change_the_root_of_the_tree() -> None:
    kernel(155, 41, b".", b".")  # pivot_root


@refused("EPERM")
def change_the_root_of_a_process() -> None:
    os.chroot(AT.project)


@refused("EPERM")
def unshare_a_user_namespace() -> None:
    call("unshare", 0x10000000)


@refused("ENOSYS")
def clone_into_a_user_namespace_by_the_new_call() -> None:
    kernel(435, 435, struct.pack("=8Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0), 64)


@refused("EPERM")
def clone_into_a_user_namespace() -> None:
    kernel(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)


@refused("EPERM", "EACCES")
def enter_the_mounts_of_the_spawner() -> None:
    call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0x20000)


@refused("EPERM")
def enter_own_mounts_again() -> None:
    call("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0x20000)


@refused("EPERM")
def open_a_file_by_its_handle() -> None:
    handle = struct.pack("Ii", 8, 1) + struct.pack("II", 2, 0)
    kernel(304, 265, os.open("/", os.O_RDONLY), handle, os.O_RDONLY)


@refused("EPERM")
def make_a_device() -> None:
    os.mknod(f"{AT.project}/disk", 0o060600, os.makedev(8, 0))


@refused("ENOENT")
def open_a_disk() -> None:
    for name in AT.disks:
        os.open(f"/dev/{name}", os.O_RDONLY)
    os.open("/dev/sda", os.O_RDONLY)


@refused("ENOENT")
def open_the_memory_of_the_machine() -> None:
    os.open("/dev/mem", os.O_RDONLY)


@refused("EACCES", "ENOENT")
def read_the_memory_of_the_kernel() -> None:
    os.open("/proc/kcore", os.O_RDONLY)


@refused("EPERM")
def load_a_program_into_the_kernel() -> None:
    kernel(321, 280, 0, b"\0" * 64, 64)  # bpf


@refused("EPERM")
def set_up_a_ring_of_calls() -> None:
    kernel(425, 425, 4, ctypes.create_string_buffer(128))  # io_uring_setup


@refused("EPERM")
def watch_the_processor() -> None:
    kernel(298, 241, ctypes.create_string_buffer(128), 0, -1, -1, 0)  # perf_event_open


@refused("EPERM")
def handle_page_faults() -> None:
    kernel(323, 282, 0)  # userfaultfd


@refused("EPERM")
def read_the_keyring() -> None:
    kernel(250, 219, 0, -3, 0)  # keyctl


@refused("EPERM")
def add_a_key() -> None:
    kernel(248, 217, b"user", b"a", b"a", 1, -3)


@refused("EPERM")
def load_another_kernel() -> None:
    kernel(246, 104, 0, 0, 0, 0)


@refused("EPERM")
def load_a_module() -> None:
    kernel(175, 105, b"", 0, b"")


@refused("EPERM")
def set_the_clock() -> None:
    kernel(164, 170, struct.pack("qq", 0, 0), 0)


@refused("EPERM")
def name_the_machine() -> None:
    socket.sethostname("evil")


@refused("EPERM", "EINVAL")
def become_somebody_else() -> None:
    os.setresuid(12345, 12345, 12345)


@refused("EPERM", "EINVAL")
def give_a_file_to_somebody_else() -> None:
    os.chown(f"{AT.project}/file", 12345, -1)


@refused("EPERM")
def raise_capabilities() -> None:
    head = struct.pack("=Ii", 0x20080522, 0)
    call("capset", head, struct.pack("=6I", 1 << 21, 1 << 21, 0, 0, 0, 0))


@refused("nothing")
def gain_by_a_program_that_changes_its_user() -> str:
    status = open("/proc/self/status").read()
    held = [line for line in status.splitlines() if line.startswith(("CapEff", "CapBnd", "CapPrm"))]
    usual = 0b1011  # CHOWN, DAC_OVERRIDE, FOWNER: as root, for files of others
    safe = "NoNewPrivs:\t1" in status and not any(int(line.split()[1], 16) & ~usual for line in held)
    return "" if safe else status


@refused("killed", "ENOSYS")
def call_by_the_x32_abi() -> None:
    if not X86:
        raise OSError(errno.ENOSYS, "no x32 here")
    call("syscall", 0x40000000 | 165, b"a", b"/mnt", b"tmpfs", 0, None)


@refused("killed", "ENOSYS")
def call_as_a_32_bit_program() -> None:
    if not X86:
        raise OSError(errno.ENOSYS, "no i386 here")
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()


@refused("ENOENT")
def lead_a_folder_of_a_layer_to_a_secret() -> str:
    folder = f"{AT.home}/.cache/folder"
    os.makedirs(folder, exist_ok=True)
    with suppress(OSError):
        os.setxattr(folder, "user.overlay.redirect", b"/.ssh")
    return open(f"{folder}/id_rsa").read()


@refused("EPERM")
def make_a_whiteout_in_a_layer() -> None:
    os.mknod(f"{AT.home}/.cache/built2", 0o020600, os.makedev(0, 0))


@refused("ENOSPC")
def fill_the_folder_for_temporary_files() -> None:
    fd = os.open("/tmp/large", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(fd, 0, 5 << 30)


@refused("ENOSPC", "ENOMEM")
def fill_shared_memory() -> None:
    fd = os.open("/dev/shm/large", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(fd, 0, 5 << 30)


def outcome(attempt: Callable[[], Any]) -> str:
    """Return the outcome of an attempt in its own process: an error's name, "killed", "nothing", or more."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = attempt()
            said = f"reached {found!r}" if found else "nothing" if found in ("", []) else "reached"
        except OSError as error:
            said = errno.errorcode.get(error.errno or 0, str(error))
        except BaseException as error:
            said = f"failed: {error!r}"
        os.write(writer, said.encode()[:4000])
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 4000).decode()
    os.close(reader)
    status = os.waitpid(child, 0)[1]
    return "killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS else said


if __name__ == "__main__":
    AT = SimpleNamespace(**json.loads(sys.argv[1]))
    descriptors = [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
    # glibc 2.43 keeps one of a library that it loads.
    AT.descriptors = [fd for fd in descriptors if ".so" not in os.readlink(f"/proc/self/fd/{fd}")]
    print(json.dumps({name: outcome(attempt) for name, (_, attempt) in ESCAPES.items()}), flush=True)
