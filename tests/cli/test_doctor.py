"""kbv doctor: on this machine, on one that lacks things, and with a Python that misbehaves."""

import json
import os
import time

from harness import PYTHON, Case


class Doctor(Case):
    def program(self, name, text):
        path = self.write(name, text)
        path.chmod(0o755)
        return path

    def diagnose(self, *options, **environment):
        result = self.kbv("doctor", "--json", "-", *options, deadline_s=90, **environment)
        document = self.document(result)
        self.assertEqual(document["schema"], "kbv.doctor/1")
        self.assertEqual(result.status, 0 if document["ready"] else 3, str(result))
        return document

    def missing(self, document, need):
        return {part["what"]: part for part in document["missing"] if part["need"] == need}

    def test_finds_what_the_tests_use(self):
        document = self.diagnose()
        self.assertEqual(self.missing(document, "required"), {})
        self.assertTrue(document["ready"])
        self.assertTrue(os.path.samefile(document["python"]["path"], PYTHON))
        self.assertRegex(document["torch"]["version"], r"^\d+\.\d+")
        self.assertTrue(os.path.isfile(os.path.join(document["library"], "_kbv.abi3.so")))
        cpu = document["devices"][0]
        self.assertEqual(cpu["device"], "cpu")
        self.assertEqual(cpu["cores"], len(os.sched_getaffinity(0)))
        self.assertGreater(cpu["memory_bytes"], 1 << 28)
        self.assertRegex(document["compilers"]["g++"]["version"], r"\d+\.\d+")
        layers = set(document["sandbox"]["layers"])
        absent = {layer["layer"]: layer["reason"] for layer in document["sandbox"]["absent"]}
        self.assertEqual(layers & set(absent), set())
        self.assertIn("no_new_privs", layers)
        self.assertTrue(all(absent.values()), absent)

    def test_text_says_the_same(self):
        document = self.diagnose()
        text = self.kbv("doctor", deadline_s=90)
        self.assertEqual(text.status, 0, str(text))
        self.assertIn(document["torch"]["version"], text.stdout)
        self.assertIn(document["kernel"], text.stdout)
        for part in self.missing(document, "advice").values():
            self.assertIn(part["why"], text.stdout)
        self.assertTrue(text.stdout.endswith("ready to judge on cpu\n"), str(text))
        self.assertNotIn("not ready", text.stdout)

    def test_writes_a_file(self):
        path = self.directory / "doctor.json"
        result = self.kbv("doctor", f"--json={path}", deadline_s=90)
        self.assertEqual((result.status, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(json.loads(path.read_text())["schema"], "kbv.doctor/1")

    def test_python_without_torch(self):
        bare = self.program("bare", f'#!/bin/sh\nexec "{PYTHON}" -S "$@"\n')
        document = self.diagnose(f"--python={bare}")
        part = self.missing(document, "required")["torch"]
        self.assertIsNone(document["torch"])
        self.assertIn("torch", part["why"])
        self.assertIn("pip install torch", part["mend"])

    def test_text_names_the_mending_command(self):
        bare = self.program("bare", f'#!/bin/sh\nexec "{PYTHON}" -S "$@"\n')
        result = self.kbv("doctor", f"--python={bare}", deadline_s=90)
        self.assertEqual(result.status, 3, str(result))
        self.assertIn("pip install torch", result.stdout)
        self.assertTrue(result.stdout.endswith("not ready to judge on cpu\n"), str(result))

    def test_python_that_is_none(self):
        cases = {
            "fails": "#!/bin/sh\necho broken interpreter >&2\nexit 1\n",
            "silent": "#!/bin/sh\nexit 0\n",
            "talks": "#!/bin/sh\necho '[1, 2]'\n",
            "floods": "#!/bin/sh\nhead -c 50000000 /dev/zero\n",
        }
        for name, text in cases.items():
            with self.subTest(name):
                document = self.diagnose(f"--python={self.program(name, text)}")
                self.assertIn("python", self.missing(document, "required"))
        said = self.missing(self.diagnose(f"--python={self.directory}/fails"), "required")
        self.assertIn("broken interpreter", said["python"]["why"])

    def test_python_that_leaves_a_child(self):
        """The child keeps doctor's pipe open: it must not wait for it, and not leave it."""
        text = f'#!/bin/sh\nsleep 300 &\nexec "{PYTHON}" "$@"\n'
        start = time.monotonic()
        self.assertTrue(self.diagnose(f"--python={self.program('loose', text)}")["ready"])
        self.assertLess(time.monotonic() - start, 60)

    def test_path_without_compilers(self):
        document = self.diagnose(PATH="/nonexistent", KBV_PYTHON=PYTHON)
        self.assertIsNone(document["compilers"]["g++"])
        self.assertIn("apt-get", self.missing(document, "required")["g++"]["mend"])

    def test_cuda(self):
        document = self.diagnose("--device=cuda")
        gpus = [device for device in document["devices"] if device["device"] != "cpu"]
        if gpus:
            self.assertIsNone(document["no_gpu"])
            self.assertTrue(all(gpu["driver"] for gpu in gpus))
        else:
            self.assertFalse(document["ready"])
            self.assertTrue(document["no_gpu"])
            self.assertTrue(self.missing(document, "cuda"))
        self.assertFalse(self.diagnose("--device=cuda:1000")["ready"])

    def test_usage(self):
        for options, said in (
            (["--device=gpu"], "gpu"),
            (["--device=cuda:"], "cuda:"),
            (["--device=cuda:1x"], "cuda:1x"),
            (["--python=/nonexistent"], "/nonexistent"),
            (["--python"], "--python"),
            (["--json=/nonexistent/x"], "/nonexistent/x"),
            (["--verbose"], "--verbose"),
            (["now"], "now"),
        ):
            with self.subTest(options=options):
                self.assert_refused(self.kbv("doctor", *options, deadline_s=90), 2, said)

    def test_environment_names_no_program(self):
        result = self.kbv("doctor", KBV_PYTHON="/nonexistent", deadline_s=30)
        self.assert_refused(result, 2, "KBV_PYTHON", "/nonexistent")
