"""Help is part of the interface: what it says is compared with files.

After a change that was meant:

    KBV_UPDATE_GOLDEN=1 python3 -m unittest discover tests/cli -k test_help
"""

import os
import re

from harness import GOLDEN, KBV, ROOT, Case

COLUMNS_MAX = 100


class Help(Case):
    def commands(self):
        """The subcommands that `kbv --help` lists."""
        return re.findall(r"^  ([a-z][a-z-]*)  +\S", self.kbv("--help").stdout, re.MULTILINE)

    def compare(self, name, text):
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("KBV_UPDATE_GOLDEN"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text)
        self.assertTrue(path.exists(), f"no {path.relative_to(ROOT)}")
        self.assertEqual(text, path.read_text())

    def check_form(self, result):
        self.assertEqual(result.status, 0, str(result))
        self.assertEqual(result.stderr, "")
        self.assertTrue(result.stdout.startswith("usage: kbv"), str(result))
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), COLUMNS_MAX, line)
            self.assertEqual(line, line.rstrip())

    def test_of_kbv(self):
        result = self.kbv("--help")
        self.check_form(result)
        self.compare("kbv", result.stdout)

    def test_of_every_command(self):
        commands = self.commands()
        self.assertLessEqual({"eval", "demo", "doctor"}, set(commands))
        for name in commands:
            with self.subTest(name):
                result = self.kbv(name, "--help")
                self.check_form(result)
                self.assertTrue(result.stdout.startswith(f"usage: kbv {name}"), str(result))
                self.assertIn("Exit status", result.stdout)
                self.compare(name, result.stdout)

    def test_that_no_golden_file_is_left_over(self):
        golden = {path.stem for path in GOLDEN.glob("*.txt")}
        self.assertEqual(golden, {"kbv", *self.commands()})

    def test_version(self):
        result = self.kbv("--version")
        version = re.search(r"version: '([^']*)'", (ROOT / "meson.build").read_text()).group(1)
        self.assertEqual((result.status, result.stdout), (0, f"kbv {version}\n"))

    def test_needs_nothing(self):
        """Help comes even where neither Python nor a home nor a terminal is there."""
        environment = dict.fromkeys(["HOME", "TMPDIR", "KBV_PYTHON", "KBV_LIBDIR", "TERM"])
        result = self.kbv("--help", PATH="/nonexistent", **environment)
        self.assertEqual(result.status, 0, str(result))
        self.assertTrue(os.access(KBV, os.X_OK))
