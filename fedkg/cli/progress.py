"""Progress of a run: one line per trial, with a bar if the terminal supports it."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from fedkg.cli.console import print_note, stderr_console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from fedkg.jobs.events import Event


class ProgressDisplay:
    """Listens to the events of a run; a context manager that always removes the bar."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._total: TaskID | None = None
        self._trials: dict[int, TaskID] = {}
        self._rounds: dict[int, int] = {}

    def __enter__(self) -> ProgressDisplay:
        console = stderr_console()
        if console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            name, *texts = (
                TextColumn(text, markup=False)
                for text in (
                    "{task.description}",
                    "{task.percentage:>3.0f}%",
                    "{task.fields[figures]}",
                )
            )
            self._bar = Progress(
                name, BarColumn(bar_width=16), TimeRemainingColumn(), *texts, console=console
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event.kind:
            case "prepared" | "note":
                self._say(event.message)
            case "trial":
                self._begin(event)
            case "round":
                self._advance(event)
            case "trial_done":
                self._end(event)
            case _:  # the command reports how a run ends, and a note an excluded site
                pass

    def _say(self, text: str) -> None:
        if text and self._bar is not None:
            self._bar.console.print(text, markup=False)
        elif text:
            print_note(text)

    def _begin(self, event: Event) -> None:
        if self._bar is None:
            return
        if self._total is None:
            self._total = self._bar.add_task(
                "1 trial" if event.trials == 1 else f"all {event.trials} trials",
                total=event.trials * event.rounds,
                figures="",
            )
        self._trials[event.trial_number] = self._bar.add_task(
            event.trial, total=event.rounds, completed=event.round, figures=""
        )
        self._count(event)

    def _advance(self, event: Event) -> None:
        if self._bar is not None and event.trial_number in self._trials:
            # imported here: commands without a run start without NumPy
            from fedkg.operations.run_progress_texts import figures_text

            self._bar.update(
                self._trials[event.trial_number],
                completed=event.round,
                figures=figures_text(event.values),
            )
            self._count(event)

    def _count(self, event: Event) -> None:
        """Update the total bar; trials before the first one of this process are already done."""
        self._rounds[event.trial_number] = event.round
        if self._bar is not None and self._total is not None:
            before = (min(self._rounds) - 1) * event.rounds
            self._bar.update(self._total, completed=before + sum(self._rounds.values()))

    def _end(self, event: Event) -> None:
        """Replace the bar of a trial by a permanent line."""
        if self._bar is not None and event.trial_number in self._trials:
            self._bar.remove_task(self._trials.pop(event.trial_number))
            self._count(replace(event, round=event.rounds))
        self._say(f"[{event.trial_number}/{event.trials}] {event.message or event.trial}")
