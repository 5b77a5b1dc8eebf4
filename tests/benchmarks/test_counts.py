"""What is counted of the code."""

import argparse

from benchmarks import counts


def test_parameters_of_python_are_counted():
    text = "def f(a, b, /, c=1, *rest, d, **more):\n    def g(): pass\n    return lambda x, y: x\n"
    assert dict(counts.functions("a.py", text)) == {"f": 4, "g": 0}


def test_parameters_of_cpp_are_counted():
    text = """
    // int commented(int a, int b) {
    #define MACRO(a, b) { }
    template <class F> bool f(View2<const F> a, Pair<int, int> b, int (*c)(int, int)) { if (a) { } }
    struct S { int g() const { return 0; } int h(int a,
                                                 int b) { while (a) { g(); } return b; } };
    int declared(int a);
    """
    assert dict(counts.functions("a.h", text)) == {"f": 3, "g": 0, "h": 2}


def test_the_table_has_a_column_for_each_checkout():
    parser = argparse.ArgumentParser()
    counts.add_arguments(parser)
    report = counts.run(parser.parse_args([str(counts.ROOT)]))
    assert all(row[1] == row[2] for row in report.rows)
    known = {str(row[0]): row[1] for row in report.rows}
    assert known["files in the package"] > known["Python files in the package"] > 50
    assert known["lines of C++"] > 1000
    assert known["type names that are defined more than once"] == 0
    assert known["files of the package that name a scorer outside its folder"] <= 10
    assert known["words of docs"] <= 30_000
