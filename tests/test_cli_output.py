"""How commands talk: progress for terminals, tables in columns."""

import pytest

from doppler_plugins.cli.output import progress_line, table


def test_progress_is_for_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    with progress_line() as progress:
        assert progress is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress_line() as progress:
        assert progress is not None
        for done in range(1000):
            progress("reading", done, 1000)
        progress("reading", 1000, 1000)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.endswith("reading 100 %\n")
    # Ten lines a second at most, whatever the number of calls; 1,000 calls take milliseconds.
    assert shown.err.count("\r") < 100


def test_progress_of_unknown_length_counts_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress_line() as progress:
        assert progress is not None
        for done in (256, 512, 600):
            progress("texts embedded:", done, 0)
        progress("texts embedded:", 600, 600)
    shown = capsys.readouterr().err
    assert shown.startswith("\r\033[Ktexts embedded: 256")
    assert shown.count("\n") == 1
    assert shown.endswith("texts embedded: 100 %\n")


def test_a_task_without_an_end_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress_line() as progress:
        assert progress is not None
        progress("reading", 1, 2)
        progress("expanding", 96, 100)
    shown = capsys.readouterr().err
    assert shown == "\r\033[Kreading  50 %\r\033[Kexpanding  96 %\r\033[K"


def test_a_table_lines_its_columns_up() -> None:
    assert table([("a", "bbb"), ("cccc", "d")]) == ["a     bbb", "cccc  d"]
    assert table([]) == []
