"""Irreversible effects need approval in every mode, however they are written; everyday work does not."""

import shlex

import pytest

from agent.permissions.modes import MODES
from agent.permissions.rule_syntax import parse_rules
from agent.permissions.rules import PermissionRules, judge_call
from agent.shell.destructive import irreversible_effect, may_overwrite
from agent.shell.vital_places import Places
from tests.sampling import scaled
from tests.tables import each_row
from tools.base import Access

HOME, FOLDER = "/home/me", "/home/me/work/app"
PLACES = Places(FOLDER, HOME, FOLDER)
RUIN: dict[str, list[str]] = {
    "the root": [
        "rm -rf /", "rm -rf /proc/self/root",
        "rm -fr /*", "rm -r -f --no-preserve-root /", "rm --recursive /.", "rm -rf //",
        "rm -rf / x", "rm -Rf -- /", "rm -rf /*/", "rm -rf /[a-z]*", "rm -rf ../../../..",
        "cd / && rm -rf *", 'rm -rf "$UNSET"/*', "rm -rf $UNSET/", "x=/; rm -rf $x",
        "for d in / x; do rm -rf $d; done", "rm -rf {/,x}", "rm -rf $'/'", "rm -rf /e*",
        "rm -rf /home/../*", "rm -rf $(echo /)", "echo / | xargs rm -rf", "xargs -I{} rm -rf {} <<< /",
        'f() { rm -rf "$1"; }; f /', "x='rm -rf /'; $x", "rm -rf /mnt/c", "tar --remove-files -cf x /",
        "python3 -c \"import shutil; shutil.rmtree('/')\"", "gio trash /",
        "gio remove -f /*", "gvfs-trash /", "find / -exec gio trash {} +",
    ],
    "a home": [
        "rm -rf ~", "pee 'rm -rf ~'", "concurrently 'rm -rf ~'", "hyperfine 'rm -rf ~'",
        "start-server-and-test 'rm -rf ~' x y", "rm -rf ~/", "rm -rf ~/*",
        "rm -rf $HOME", 'rm -rf "$HOME"/*', "rm -rf ${HOME:?}/",
        "mawk 'BEGIN{system(\"rm -rf ~\")}'", "nawk 'BEGIN{system(\"rm -rf ~\")}'",
        "echo 'rm -rf ~' | sh /proc/self/fd/0", "echo 'rm -rf ~' | sh /dev/fd/0",
        "echo /home/me | xargs -i rm -rf {}", "echo /home/me | xargs -I% rm -rf %",
        "echo /home/me | xargs --replace rm -rf {}", "echo /home/me | xargs -ix rm -rf x",
        "alias x=y ll='rm -rf ~'; ll", "rm -rf ~me", "rm -rf /home/me", "rm -rf /home/you/*",
        "rm -rf /root", "rm -rf ~/.[!.]*",
        "cd; rm -rf *", "cd ~ && rm -r .", "rm -rf /home/me/work/..", "rm -rf ~/Documents", "rm -rf ~/.ssh",
        "rm -rf ~/$UNSET", "rm -rf {~,x}", "(cd ~ && rm -rf *)", "rm -rf /Users/me",
        'f() { rm -rf "$@"; }; f ~', "D=$HOME; cd $D && rm -rf *", "node -e \"fs.rmSync('/home/me')\"",
        "python3 - <<E\nimport os\nos.system('rm -rf ~')\nE", "gio trash ~",
        "make -f - <<E\nall:\n\trm -rf ~\nE",
        "make -f - <<< 'all: ; @rm -rf ~'", "printf 'all:\\n\\trm -rf ~\\n' > Makefile && make",
        "cat > x.mk <<'E'\nall:\n\t@-rm -rf $$HOME\nE\nmake -f x.mk",
    ],
    "a system folder": [
        "rm -rf /etc", "rm -rf /usr/*", "rm -rf /var", "rm -rf /usr/bin", "rm -rf /home", "rm -rf /lib64/",
        "rm -rf /boot/../etc", "cd /etc; rm -rf ./*", "rm -rf /usr/local/lib", "rm -rf /usr/lib /tmp/x",
        "rm -rf /{etc,usr}", "rm -rf /System", "rsync -a --delete empty/ /etc/", "rm -rf /var/lib",
    ],
    "an ancestor": [
        "rm -rf ..", "rm -rf ../..", "rm -rf ../*", "rm -rf /home/me/work", "rm -rf ~/work/",
        "cd .. && rm -rf *", "rm -rf $PWD/..", 'rm -rf "$(pwd)"/..', "pushd ..; rm -rf *", "rm -rf ./../",
        "rm -rf ../app/..",
    ],
    "the current directory": [
        "rm -rf .", "rm -rf *", "rm -rf ./", "rm -rf ./*", "rm -rf -- *", "rm -rf .[!.]* *", "rm -rf $PWD",
        "rm -rf `pwd`", 'rm -rf "$PWD"/*', "rm -rf {*,.*}", "rm -rf $(ls -A)", "rm -rf ?*", "rm -rf **",
        "rm -rf */", 'for f in *; do rm -rf "$f"; done', "(rm -rf *)", "cd . && rm -rf *",
    ],
    "the project": [
        "rm -rf /proc/self/cwd/..//app", "rm -rf /proc/thread-self/cwd/",
        "rm -rf /home/me/work/app", "rm -rf ~/work/app", "rm -rf ../app", "rm -rf ~/work/app/*",
        "cd .. && rm -rf app", "rm -rf $(git rev-parse --show-toplevel)", "cd src && cd .. && rm -rf *",
        "rm -rf src/..", "rm -rf /home/me/work/app/.", "find ~/work/app -delete",
    ],
    "the repository": [
        "rm -rf .gi?", "rm -rf .g*", "rm -rf .[g]it",
        "rm -rf .git", "rm -rf ./.git", "rm -rf .git/", "rm -r .git/*", "rm -rf src .git",
        "rm -rf .git/objects", "rm -rf .git/refs", "rm -rf $PWD/.git", "rm -rf ~/work/app/.git",
        'rm -rf ".git"', "rm -rf .g''it", "find .git -delete", "mv .git /tmp/x", "rm -rf {.git,x}",
        "cd src; rm -rf ../.git", 'rm -rf "$(git rev-parse --git-dir)"', "unlink .git",
    ],
    "deletion by find or through a pipe": [
        "find / -delete", "find . -delete", "find ~ -type f -delete", "find / -name '*.log' -delete",
        "find . -exec rm -rf {} +", "find . -type f -exec rm {} \\;", "find . | xargs rm -rf",
        "ls | xargs rm", "find . -print0 | xargs -0 rm", "find . ! -name x -delete",
        "find . -name x -o -delete", "ls -A | xargs rm -rf", "ls -1 | sort | xargs -n1 rm -r",
        "find . -name '*' -delete", "printf '%s\\0' * | xargs -0 rm -rf",
        'ls | while read f; do rm -rf "$f"; done', "find ~ -execdir rm {} +", "ls ~ | xargs -I{} rm -rf {}",
        "find .. -mindepth 1 -delete", "find . -exec sh -c 'rm \"$1\"' _ {} \\;", "rm $(find . -type f) -r",
        "find . -type f -print0 | parallel -0 rm", "git ls-files -z | xargs -0 rm", "echo * | xargs rm -rf",
        "rm -rf $(find . -maxdepth 1)", "find . -not -path './x/*' -delete",
        "cd /tmp && find -L ~ -delete", "cd /tmp; find -P -O3 / -delete", "cd /tmp; find -D tree ~ -delete",
        "cd /tmp; find -- /etc -exec rm {} +", "cd /tmp; find -x / -delete", "cd /tmp; fd -H . ~ -x rm",
        "find -D tree -delete", "fd -x rm", "find ~ -exec rimraf {} +", "ls -A | xargs rimraf",
        "cd /tmp; fd . ~ --exec rm", "cd /tmp; fd . ~ --exec-batch chmod 777",
        "for f in $(ls); do rm -rf $f; done",
        "rm -rf $(ls /)", "rm -rf `ls -d /*`", "rm -rf $(find / -maxdepth 1)", "rm -rf $(echo /*)",
        "rm -rf $(ls -A ~ 2>/dev/null)", "rm -rf $(ls ..)", "for d in $(ls /); do rm -rf /$d; done",
        "while read d; do rm -rf $d; done < <(ls /)", 'while read d; do rm -rf "/$d"; done < <(ls /)',
        'mapfile -t a < <(ls -A ~); rm -rf "${a[@]}"', "xargs -0 rm -rf < <(find / -print0)",
        "xargs -a list rm -rf", "xargs --arg-file=list rm -r", "xargs rm -rf < list",
        "cat list | xargs rm -rf", "cat list | sort | xargs -I{} rm -rf /{}", "ls / > l; xargs -a l rm -r",
        "ls / > l; while read d; do rm -rf /$d; done < l", "ls -A / | xargs -I{} rm -rf /{}",
    ],
    "moving": [
        "mv / /tmp/x", "mv ~ /tmp/x", "mv /etc /etc.bak", "mv .. /tmp", "mv /home/me/work/app /tmp/x",
        "mv .git x", "mv ~/* /dev/null", "mv x /dev/null", "mv -t /tmp /usr", "mv -f /var /mnt/x",
        "mv ../app ../x", "mv /* /tmp", "mv -- ~/work x", "mv ~/work/app{,.old}", "mv .git{,.bak}",
    ],
    "rights and owners": [
        "chmod -R 777 /", "chmod -R 000 ~", "chown -R nobody /etc", "chown -R me:me /usr",
        "chgrp -R x /var", "chmod --recursive a-rwx /home", "chmod -R 000 .", "chmod -R a-rwx *",
        "chown -hR me ~", "chmod -R 777 ..", "find / -exec chmod 777 {} +", "chattr -R +i /etc",
        "setfacl -R -m u:x:rwx /", "setfacl -R -b /", "setfacl --recursive -x u:me ~", "setfacl -Rk /etc",
        "chmod -R -r .", "chown -R --reference=x /etc",
    ],
    "writing to a device": [
        "dd if=/dev/zero of=/dev/sda", "echo x > /dev/sda", "cat x >/dev/nvme0n1", "cp x /dev/sdb",
        "tee /dev/vda <x", "dd of=/dev/mem", ">/dev/sda", "cat /dev/urandom >> /dev/sda1",
        "dd if=x of=/dev/disk/by-id/y", "mv x /dev/sda", "dd bs=1M if=x of=/dev/$DISK", "dd of=/dev/sd*",
        "cat x > /dev/mapper/root", "xz -dc x | dd of=/dev/mmcblk0", "echo x 1<> /dev/sda",
        "dd of=/dev/rdisk2", "> /dev/$(x)",
    ],
    "making file systems": [
        "mkfs.ext4 /dev/sda1", "mkfs -t ext4 /dev/sda1", "mke2fs /dev/sda", "mkswap /dev/sdb",
        "fdisk /dev/sda", "parted -s /dev/sda mklabel gpt", "sfdisk /dev/sda < x", "sgdisk -Z /dev/sda",
        "mkfs.xfs -f $DISK", "lvremove -f vg/lv", "vgremove vg", "zpool destroy tank",
        "cryptsetup luksFormat /dev/sda2", "mdadm --zero-superblock /dev/sda",
        "diskutil eraseDisk APFS x disk2", "mkfs.vfat -F 32 /dev/sda1", "pvcreate /dev/sdb",
        "pvremove /dev/sdb", "vgreduce vg /dev/sdb", "mdadm --create /dev/md0", "mdadm -C /dev/md0",
        "mdadm --stop /dev/md0", "mdadm -S /dev/md0", "cryptsetup luksErase x", "cryptsetup erase x",
        "cryptsetup reencrypt x", "zpool labelclear x", "zpool create x y", "zfs destroy x",
    ],
    "wiping": [
        "shred x", "shred -u ~/x", "wipefs -a /dev/sda", "blkdiscard /dev/sda", "wipefs --all /dev/sda",
        "srm -r x", "badblocks -w /dev/sda", "hdparm --security-erase p /dev/sda",
        "nvme format /dev/nvme0n1", "scrub /dev/sda", "find . -name x -exec shred {} +",
        "ls *.key | xargs shred -u", "diskutil secureErase 0 disk2", "nwipe x", "wipe x", "sfill x",
        "sswap x", "sg_format x", "sdelete x", "badblocks -n x", "wipefs --offset 0 x", "wipefs -o 0 x",
        "hdparm --trim-sector-ranges 1:2 x", "hdparm --dco-restore x", "hdparm --make-bad-sector 1 x",
        "hdparm --write-sector 1 x", "nvme sanitize x", "nvme delete-ns x", "nvme write-zeroes x",
        "mmc erase x", "mmc format x", "asr restore x", "btrfs subvolume delete x", "dmsetup remove x",
        "dmsetup remove_all", "dmsetup wipe_table x", "diskutil zeroDisk x", "diskutil partitionDisk x",
    ],
    "overwriting system files": [
        "echo x > /etc/passwd", "> /etc/shadow", "cp x /etc/passwd", "tee /etc/sudoers < x",
        "mv x /etc/fstab", "sed -i s/a/b/ /etc/passwd", "dd if=x of=/etc/shadow",
        "truncate -s 0 /etc/passwd", "ln -sf /dev/null /etc/hosts", "cp x /bin/ls", "cat x > /usr/bin/env",
        "install -m755 x /usr/bin/sudo", "install x /usr/bin/sudo --mode 755",
        "rm /etc/passwd", "rm -f /etc/*", "echo x >> /etc/passwd",
        "echo x >> /etc/sudoers", "curl -o /usr/bin/ls u", "rm /boot/vmlinuz",
        "cp evil.so /usr/lib/libc.so.6", "echo '|x' > /proc/sys/kernel/core_pattern", "cp ls /usr/bin/",
        "curl u -o/etc/passwd", "curl -so /etc/passwd u", "curl --output=/etc/passwd u",
        "wget u -O/etc/passwd",
        "wget -qO/etc/passwd u", "wget u --output-document=/etc/passwd", "sort x -o/etc/passwd",
        "sort --out=/etc/passwd x", "cp -t /etc passwd", "cp -vt/etc passwd", "mv -t /etc passwd",
        "cp --target-directory=/etc passwd", "install --target-dir /etc passwd", "ln -ft /etc passwd",
        "cp -S t x /etc/passwd", "cp -Stxt x /etc/passwd", "tee --append /etc/passwd",
        "rsync -t x /etc/passwd",
    ],
    "a fork bomb": [
        ":(){ :|:& };:", "f() { f | f & }; f", "bomb() { bomb & bomb & }; bomb", "function f { f|f& }; f",
        ".(){ .|.& };.", "f()(f|f&);f", ":() {\n  : | : &\n}\n:", "perl -e 'fork while fork'",
        "python3 -c 'import os\nwhile True: os.fork()'", "while true; do sleep 9 & done",
        "ruby -e 'fork while fork'", "while :; do bash & done",
    ],
    "killing all": [
        "kill -9 -1", "kill -- -1", "kill -KILL -1", "kill -s TERM -1", "kill 1", "kill -9 1",
        "killall5 -9", "pkill -u me", "pkill -9 .", "pkill -f ''", "killall -u me", "pkill '.*'",
        "kill -9 $(ps -e -o pid=)", "ps aux | awk '{print $2}' | xargs kill -9", "kill `pgrep .`",
        "pkill -KILL -u $USER", "killall -r '.*'",
    ],
    "shutting down": [
        "shutdown now", "shutdown -h +1", "poweroff", "reboot", "halt -p", "init 0", "telinit 6",
        "systemctl poweroff", "systemctl --force reboot", "systemctl isolate rescue.target",
        "echo b > /proc/sysrq-trigger", "kexec -e", "/sbin/reboot", "systemctl suspend",
        "osascript -e 'tell app \"System Events\" to shut down'",
    ],
    "users and crontabs": [
        "crontab -r", "crontab -ir", "crontab -u me -r", "crontab /dev/null", "crontab - < /dev/null",
        "userdel me", "userdel -r me", "deluser me", "groupdel x", "dscl . -delete /Users/me",
        "dscl . delete /Users/me",
        "sysadminctl -deleteUser me", "rm /var/spool/cron/crontabs/me", "echo -n | crontab -",
        "gpasswd -d me wheel", "gpasswd --delete me wheel", "gpasswd -M '' wheel",
        "printf '' | crontab", "pw userdel me", "true | crontab -", "cat /dev/null | crontab -",
    ],
}  # fmt: skip
WRAPPERS = [
    "sudo {}", "sudo -u root -- {}", "doas {}", "env A=1 {}", "env -i {}", "nice -n 5 {}", "nohup {}",
    "setsid -f {}", "timeout -k 1 5 {}", "stdbuf -o0 {}", "command {}", "exec {}", "time {}", "! {}",
    "ionice -c 3 {}", "busybox {}", "setpriv --no-new-privs {}", "</dev/null {}", ">/dev/null {}",
    "2>&1 {}", "9<x {}", "{{fd}}>x {}", "x=1 {}", "a[0]=1 {}", "if {}; then :; fi", "{{ {}; }}", "( {} )",
    "echo $( {} )", "ls; {} ; ls", "ls && {}", "ls | {}", "for i in 1; do {}; done",
    "case a in a) {};; esac", "while {}; do :; done", "{} &", "# x\n{}", "coproc {}", "xargs {}", "\\{}",
    "/usr/bin/env {}", "uv run {}", "npx {}", "flock x {}", "strace -f {}", "env -S '{}'",
    "env -iS'A=1 {}'", "/lib64/ld-linux-x86-64.so.2 {}",
]  # fmt: skip
SCRIPTS = [
    "bash -c {}", "sh -ec {}", "eval {}", "bash <<< {}", "echo {} | sh", "su -c {} root", "trap {} EXIT",
    "ssh host {}", "sudo bash -lc {}", 'x={}; eval "$x"', "watch {}", "find x -exec sh -c {} \\;",
]  # fmt: skip
EVERYDAY = [
    "rm -rf node_modules", "rm -rf build/", "rm -rf ./dist /tmp/x", "rm -rf build/*", "rm -rf src/*.pyc",
    "rm x", "rm *", "rm -f *.o", "rm -rf /tmp/x", "rm -rf ~/x", "rm -rf ~/.cache/pip",
    "rm -rf /var/lib/apt/lists/*", "rm -rf -- -x", "rm -rf ../other/build", "rm -rf sub/.git",
    "rm -f .git/index.lock", "cd build && rm -rf *", "git rm -r x", "cd /tmp/x && rm -rf *",
    'd=$(mktemp -d); rm -rf "$d"/*', 'rm -rf "$TMPDIR"/*', 'rm -rf "$1"', "rm -rf $x", "rm -rf [0-9]*",
    "rm -rf *.egg-info", "rm -rf dist*", "rmdir x", "git clean -fdx", "git reset --hard",
    "find . -name '*.pyc' -delete", "find . -type d -name __pycache__ -exec rm -rf {} +",
    "find build -delete", "find -L build -delete", "find -P /tmp/x -delete",
    "find . -empty -delete", "find /tmp -mtime +3 -delete",
    "find . -name '*.o' | xargs rm -f", "find / -name x",
    "find . \\( -name '*.a' -o -name '*.o' \\) -delete", "find . -name '*.py' -exec chmod +x {} +",
    "ls | xargs wc", "find . -name '*.orig' -print0 | xargs -0 rm", "ls *.log | xargs rm",
    "ls | grep tmp | xargs rm", "rm -rf $(ls build)", "rm -rf $(ls -d build/*)", "setfacl -R -b build",
    "for d in $(ls build); do rm -rf build/$d; done", "while read d; do rm -rf $d; done < <(ls build)",
    'while read d; do rm -rf "$d"; done < <(find . -name dist)', "setfacl -R -m u:x:rX .", "xargs rm < list",
    "git ls-files -d > l; xargs rm -rf < l", "find . -name x > l; xargs -a l rm -rf",
    "d=$(mktemp -d); while read f; do cp $f $d; done < list; rm -rf $d", "xargs -a list wc",
    "ls / > x; rm -rf build", "cat list | xargs rm -f", "for f in $(ls /tmp); do echo $f; done; rm -rf build",
    'while read f; do rm -rf "build/$f"; done < list', "ls -la /", "grep -rl x . | xargs rm",
    "git branch --merged | xargs git branch -d", "git ls-files -d | xargs git rm", "mv a b", "mv * sub/",
    "mv ../x .", "mv /tmp/x ~", "mv build /tmp", "mv .gitignore x", "mv src/* lib/", "chmod +x x",
    "chmod -R u+w .", "chmod -R 755 dist", "chown -R me:me .", "chown -R me ~/.npm", "chmod 600 ~/.ssh/x",
    "chmod -R go-w src", "sudo chown -R me /usr/local", "dd if=/dev/zero of=x bs=1M count=1",
    "dd if=/dev/sda of=x", "echo x > /dev/null", "echo x > /dev/stderr", "cat x > /dev/tty",
    "cat < /dev/sda", "cd /usr/bin && ./x 2>&1",
    "ls 2>/dev/null", "x &>/dev/null", "mkfs.ext4 disk.img", "fdisk -l", "parted -l",
    "lsblk", "wipefs /dev/sda", "mdadm --detail /dev/md0", "zfs list", "sgdisk -p /dev/sda",
    "cat /etc/passwd", "cp /etc/hosts x", "echo '1 x' >> /etc/hosts", "sed -n 1p /etc/passwd",
    "sudo cp x /etc/nginx/conf.d/x.conf", "sudo tee /etc/apt/sources.list.d/x.list", "cp x /usr/local/bin/",
    "ln -s a b", "install -m755 x ~/bin/x", "f() { ls; }; f", "f() { f x; }; f",
    "f() { ls | wc -l; }; f | cat", "sleep 5 & wait", "for i in 1 2; do x & done; wait", "kill 1234",
    "kill -9 1234", "kill %1", "kill -1 1234", "kill -l", "kill $(lsof -ti :3000)",
    "pkill -f 'node server.js'", "pkill node", "killall node", "kill $!", "pkill -u me node",
    "ps aux | grep node | awk '{print $2}' | xargs kill", "kill `cat x.pid`", "kill -0 1234",
    "ps aux | awk '/node/ {print $2}' | xargs kill -9", "ps aux | rg node | xargs kill",
    "kill -0 1", "kill -s 0 1", "systemctl restart nginx", "systemctl status",
    "docker stop x", "systemctl --user stop x", "docker compose restart", "shutdown -c", "git stash",
    "init", "npm init -y", "crontab -l", "crontab x", "(crontab -l; echo x) | crontab -", "useradd x",
    "usermod -aG docker me", "groups", "gpasswd -a me docker", "gio trash build x.log",
    "gio open /", "gio list ~", "make -f Makefile clean", "echo 'rm -rf /'",
    "printf 'all:\\n\\techo ~\\n' > Makefile && make", "git commit -m 'never rm -rf ~'",
    "grep -rn 'rm -rf /' .", "printf 'shutdown now'", "man shutdown", "# rm -rf /",
    "cat <<'E'\nrm -rf /\nE", "cat > x.sh <<E\nrm -rf build\nE\nbash x.sh", 'echo "kill -9 -1" > notes',
    "python -c 'print(1)'", "python -c \"import shutil; shutil.rmtree('build')\"",
    "node -e 'fs.rmSync(\"dist\")'", "rsync -a --delete src/ backup/",
    "rsync -a --delete dist/ host:/var/www/x/", "tar xf x.tar -C /tmp/x", "rm -rf {a,b}",
    "docker run --rm -it x /", "docker rm -f x", "git worktree remove x", "cargo clean", "make clean",
    "npm ci", "gh pr create --title 'rm -rf /' --body x", "rg 'mkfs|shred' .", "which shred", "type reboot",
    "command -v halt", "(cd .. && ls); rm -rf dist", "pushd sub; rm -rf *; popd",
    "cd ~; ls; cd sub; rm -rf *", "rm -rf /work/app", "awk '/fork/ {print}' x",
    "python manage.py shell -c 'print(while_fork)'", "rm -rf /tmp", "apt-get remove -y x",
    "echo x | sudo tee -a /etc/hosts", 'f() { rm -rf "$1"; }; f build',
    "curl -o x /etc/passwd", "wget -qO- u", "sort -t: -k3 /etc/passwd", "cp -t build /etc/passwd /etc/hosts",
    "install -t /usr/local/bin x", "tee --append /etc/hosts", "cp -rt backup /etc/passwd", "mv -ft sub a b",
    "find . -path ./x -prune -o -name '*.map' -delete", "ls -t | tail -n +5 | xargs rm --", "mv ~/x{,.old}",
    "echo build | xargs rm -rf", 'while read -r l; do echo "$l" & done < f', "cat x.crontab | crontab -",
    "python -c \"import os; os.remove('x')\"", "$(echo ls) x", "sudo --user halt ls", "HOME=/tmp/x; rm -rf ~",
    "echo 'rm -rf /' | sh < x", 'retry() { "$@" || retry "$@"; }; retry ls',
]  # fmt: skip


def ruined(line: str) -> str:
    return irreversible_effect(line, PLACES)


@each_row("kind", RUIN)
def test_each_kind_of_ruin_is_known_in_all_its_forms(kind: str) -> None:
    assert [line for line in RUIN[kind] if not ruined(line)] == []


@pytest.mark.parametrize("most", scaled(3, 6))
@each_row("kind", RUIN)
def test_no_wrapper_hides_ruin(kind: str, most: int) -> None:
    plain = [line for line in RUIN[kind] if not set("$|;&<>(){}~`'\n") & set(line)][: most * 2 // 3]
    wrapped = [wrapper.format(line) for line in plain for wrapper in WRAPPERS]
    scripted = [script.format(shlex.quote(line)) for line in RUIN[kind][:most] for script in SCRIPTS]
    assert [line for line in wrapped + scripted if not ruined(line)] == []


@each_row("mode", MODES)
def test_irreversible_effects_need_approval_in_every_mode_whatever_the_rules_say(mode: str) -> None:
    for sandbox in (False, True):
        rules = PermissionRules(mode, parse_rules("bash bash(rm *)"), (), FOLDER, HOME, sandbox)  # type: ignore[arg-type]
        for lines in RUIN.values():
            verdict = judge_call("bash", [Access("run", lines[0], cwd=FOLDER)], rules)
            assert verdict.answer == ("deny" if mode in ("plan", "dontAsk") else "ask"), lines[0]
            assert verdict.prefix is None and verdict.why


def test_everyday_work_is_not_irreversible() -> None:
    assert [(line, found) for line in EVERYDAY if (found := ruined(line))] == []


def test_the_directory_that_a_command_runs_in_decides_what_is_the_current_one() -> None:
    inner = Places(FOLDER, HOME, f"{FOLDER}/src")
    assert irreversible_effect("rm -rf *", inner) == "removes the current directory"
    assert irreversible_effect("rm -rf ..", inner) == "removes the project"
    assert irreversible_effect("rm -rf ../build", inner) == ""
    assert irreversible_effect("rm -rf ../.git", inner) == "removes the repository's .git"
    assert irreversible_effect("rm -rf *", Places("", "", "")) == ""


def test_irreversible_effects_are_reported_in_words_that_users_understand() -> None:
    for line, told in (
        ("rm -rf ~", "it removes a home directory"),
        ("mv .git x", "it moves the repository's .git"),
        ("dd of=/dev/sda", "it writes to the device /dev/sda"),
        ("> /etc/passwd", "it writes the system file /etc/passwd"),
        ("rm /etc/passwd", "it removes the system file /etc/passwd"),
        ("mv a /etc/passwd", "it moves or replaces the system file /etc/passwd"),
        ("find / -delete", "it removes the root directory"),
    ):
        rules = PermissionRules("bypassPermissions", folder=FOLDER, home=HOME)
        assert judge_call("bash", [Access("run", line, cwd=FOLDER)], rules).why == told


@each_row(
    ("line", "overwrites"),
    [
        ("rm -rf build", True),
        ("cd a && unlink b", True),
        ("mv a b", True),
        ("echo x > a", True),
        ("make &> log", True),
        ("echo x >| a", True),
        ("sed -i s/a/b/ c", True),
        ("sed -ni.bak s/a/b/ c", True),
        ("perl -pi -e s/a/b/ c", True),
        ("git checkout -- a", True),
        ("git -C sub reset --hard", True),
        ("find . -name x -delete", True),
        ("gfind . -name x -delete", True),
        ("grm x", True),
        ("sed --in s/a/b/ x", True),
        ("find . -exec rm {} +", True),
        ("ls | xargs rm", True),
        ("sudo env A=1 rm a", True),
        ("bash -c 'rm a'", True),
        ("python -c 'import os; os.unlink(\"a\")'", True),
        ("$TOOL a", True),
        ("touch new", False),
        ("mkdir -p a/b", False),
        ("make test 2>&1", False),
        ("make >/dev/null 2>&1", False),
        ("echo x >> a", False),
        ("git commit -m x", False),
        ("sed -n 1p a", False),
        ("find . -name x", False),
        ("pytest -x tests", False),
    ],
)
def test_lines_that_delete_or_overwrite_are_distinguished_from_others(line: str, overwrites: bool) -> None:
    assert may_overwrite(line) == overwrites
