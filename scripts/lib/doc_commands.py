"""Commands of the documentation that are shown and not run, as they need hardware, or hours: whether what they name is there.

Looked at are programs of ours, scripts, and cargo: subcommands and options of each `warpbell`, options of each script, the
packages, programs and tests that cargo is told, and paths of this repository.
"""

import functools
import itertools
import json
import os
import re
import shlex
import subprocess

SHOWN = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"--[a-z][a-z0-9-]*")
# Words that may stand before a command.
BEFORE = {"sudo", "time", "do", "scripts/lib/on-ptx-machine", "scripts/lib/with-fake-driver"}
ENDS = {";", "&", "&&", "||", "|", "(", ")", "|&", ";;"}
FOLDERS = ("scripts/", "examples/", "kernels/", "crates/", "tests/", "docs/", "requirements")
# What is wrong in each, so that this can fail.
PLANTS = (
    ("warpbell bench --no-such-option 1", "--no-such-option"),
    ("warpbell files no-such-command x", "no-such-command"),
    ("sudo warpbell no-such-command", "no-such-command"),
    ("scripts/no-such-script", "scripts/no-such-script"),
    ("echo 1 && ./scripts/test --no-such-option  # comment", "--no-such-option"),
    ("cargo test -p warpbell-tests --test no-such-test", "no-such-test"),
    ("cargo build -p no-such-package", "no-such-package"),
    ("cc examples/c/no-such-file.c", "examples/c/no-such-file.c"),
)


class Commands:
    """What a command may name: `root` is the repository, `built` the folder with its programs."""

    def __init__(self, root, built):
        self.root, self.built = root, built

    @functools.cache
    def help_of(self, *words):
        """The text of `warpbell WORDS --help`."""
        ran = subprocess.run([self.built / "warpbell", *words, "--help"], capture_output=True, text=True, check=False)
        return ran.stdout

    @functools.cache
    def subcommands(self, *words):
        part = re.search(r"^Commands:\n(.*?)\n\n", self.help_of(*words), re.MULTILINE | re.DOTALL)
        return set(re.findall(r"^  (\w[\w-]*)", part[1], re.MULTILINE)) if part else set()

    @functools.cache
    def packages(self):
        """By name: the names of its targets."""
        command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline"]
        found = json.loads(subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout)
        return {one["name"]: {target["name"] for target in one["targets"]} for one in found["packages"]}

    def of_warpbell(self, words):
        path = []
        for word in words:
            if word in self.subcommands(*path):
                path.append(word)
            elif not path or (path == ["files"] and not word.startswith("-")):
                yield word
                return
            else:
                break
        known = set(OPTION.findall(self.help_of(*path)))
        yield from (option for option in options(words) if option not in known)

    def of_script(self, name, words):
        script = self.root / name
        # Options of a script whose parts lie in a folder of its name, too.
        files = [script, *sorted((self.root / "scripts/lib" / script.name).glob("*"))]
        text = "".join(file.read_text(errors="replace") for file in files if file.is_file())
        yield from (option for option in options(words) if option not in text)

    def of_cargo(self, words):
        words, known, targets = own(words), self.packages(), set()
        for flag, word in zip(words, words[1:]):
            if flag == "-p":
                if word not in known:
                    yield word
                targets |= known.get(word, set())
        for flag, word in zip(words, words[1:]):
            if flag in ("--test", "--bin", "--bench", "--example") and targets and word not in targets:
                yield word

    def faults(self, block):
        """The words of a block that name nothing."""
        for words in commands(block):
            for word in words:
                if word.removeprefix("./").startswith(FOLDERS) and not is_there(self.root, word):
                    yield word
            while words and (words[0] in BEFORE or re.match(r"\w+=", words[0])):
                words = words[1:]
            name, rest = (words[0], words[1:]) if words else ("", [])
            if os.path.basename(name) == "warpbell":
                yield from self.of_warpbell(rest)
            elif name.removeprefix("./").startswith("scripts/") and (self.root / name).is_file():
                yield from self.of_script(name.removeprefix("./"), rest)
            elif name == "cargo":
                yield from self.of_cargo(rest)

    def plants(self):
        """What this does not find that is wrong on purpose."""
        for block, wanted in PLANTS:
            if wanted not in list(self.faults(block)):
                yield f"scripts/lib/doc_commands.py: does not find '{wanted}' in '{block}'"


def own(words):
    """The words of a command's own: what follows `--` is another one's."""
    return words[: words.index("--")] if "--" in words else words


def options(words):
    return [word.split("=")[0] for word in own(words) if OPTION.match(word)]


def commands(block):
    """Each command of a block, as words."""
    for line in block.replace("\\\n", " ").splitlines():
        words = []
        for word in [*words_of(line), ";"]:
            if word not in ENDS:
                words.append(word)
            elif words:
                yield words
                words = []


def words_of(line):
    """The words of a line. A `#` within a word, as in DEVICE#/path, begins no comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "", True
    return itertools.takewhile(lambda word: not word.startswith("#"), lexer)


def is_there(root, word):
    """Whether a path of the repository exists; one with a variable or a placeholder may."""
    path = word.removeprefix("./").split("=")[0]
    return "$" in path or "NAME" in path or any(root.glob(path))
