"""The examples of the docstrings and of the README, in a folder of their own."""

import doctest
import importlib
import os
import pkgutil
import tempfile
import unittest

import smrkit


def load_tests(loader, tests, pattern):
    suite, examples = unittest.TestSuite(), 0
    for found in pkgutil.iter_modules(smrkit.__path__):
        if found.name == "_native":
            continue
        module = importlib.import_module(f"smrkit.{found.name}")
        of_module = doctest.DocTestSuite(module, setUp=enter, tearDown=leave)
        examples += of_module.countTestCases()
        suite.addTests(of_module)
    readme = os.path.join(os.path.dirname(__file__), "..", "README.md")
    suite.addTests(doctest.DocFileSuite(os.path.abspath(readme), module_relative=False, setUp=enter, tearDown=leave))
    assert examples >= 8, f"{examples} docstrings with examples"
    return suite


def enter(test):
    test.before, test.folder = os.getcwd(), tempfile.TemporaryDirectory()
    os.chdir(test.folder.name)


def leave(test):
    os.chdir(test.before)
    test.folder.cleanup()
