"""The training loop: updates, validations, saves, and when to stop."""

from __future__ import annotations

import copy
import itertools
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from rich.console import Console
from torch import nn

from luong import kernels
from luong.config import AnyConfig
from luong.errors import UserError
from luong.folder import (
    CONFIG,
    ModelFolder,
    read_settings,
    refuse_int8,
    save_folder,
    write_settings,
)
from luong.text.batches import BatchLoader, TrainingBatch
from luong.text.tokenizers import load_tokenizers, save_tokenizers
from luong.training.checkpoint import (
    Interval,
    Progress,
    read_state,
    restore,
    run_identity,
    save_state,
)
from luong.training.optim import Average, choose_device
from luong.training.precision import choose_precision
from luong.training.report import Report, perplexity
from luong.training.result import TrainingResult
from luong.training.schedule import Schedule
from luong.training.tasks import make_task
from luong.training.update import Updated, Updater

SAVE_SECONDS = 300.0


def train(
    config: AnyConfig, *, resume: bool = False, console: Console | None = None
) -> TrainingResult:
    """Train a model and keep the best weights in its folder.

    Args:
        config: The settings; `config.output` becomes the model folder.
        resume: Go on from the last save; from the beginning if nothing was saved.
        console: Where to show progress; the standard output by default.

    Returns:
        How the run ended.

    Raises:
        UserError: Data or settings are unfit, the folder holds a run, the loss is not finite, or
            memory does not suffice.

    Example:
        >>> train(load_config("run.toml")).scores["bleu"]
        35.2
    """
    trainer = Trainer(config, resume=resume, console=console or Console())
    with trainer.interruptible(), trainer.precision.applied():
        return trainer.run()


class Trainer:
    """One run: everything set up, and then turned."""

    def __init__(self, config: AnyConfig, *, resume: bool, console: Console) -> None:
        self.config = config
        self.console = console
        self.state_path = config.output / "state" / "last.safetensors"
        self.interrupted = False
        resumed = self._claim_folder(resume)
        self.task = make_task(config)
        self.device = choose_device(config.training.device)
        self.precision = choose_precision(
            config.training.precision,
            self.device,
            saved=read_settings(config.output).get("precision") if resumed else None,
        )
        self.identity = run_identity(
            config, self.device.type, str(self.precision.dtype), self.task.corpora
        )
        saved = read_state(self.state_path, self.identity) if resumed else None
        self.task.prepare(load_tokenizers(config.output) if saved else None)
        torch.manual_seed(config.seed)
        self.model = self.task.make_model()
        self.model.to(self.device)
        # The average starts where the model starts; without one the model itself is validated.
        averaged = copy.deepcopy(self.model) if config.training.average_decay else self.model
        self.average = Average(self.model, averaged, config.training.average_decay)
        self.folder = ModelFolder(
            config, averaged, *self.task.tokenizers, precision=self.precision.saved
        )
        self.updater = Updater(self.model, config.training, self.precision.dtype, self.task.loss)
        self.schedule = Schedule(config.training)
        self.progress = Progress()
        if saved:
            self.progress = restore(saved, self._models, self.updater.optimizer)
            self.folder.scores.update(self.progress.best_scores)
            self.schedule.factor, self.schedule.stale = self.progress.schedule
        else:
            save_tokenizers(config.output, *self.task.tokenizers)
            write_settings(self.folder, config.output)
        self.updates_per_epoch = math.ceil(len(self.task.plan(1)) / config.training.accumulate)
        self._introduce()

    def run(self) -> TrainingResult:
        """Train until something says stop."""
        progress = self.progress
        if progress.planned_minutes != self.config.training.max_minutes:
            progress.planned_updates = progress.timed_from = None
        self._started = time.monotonic() - progress.seconds
        self._saved = time.monotonic()
        reason = self._reason_to_stop()
        if reason and progress.finished:
            return self._result(f"already finished: {progress.finished}")
        with Report(self.config.output, self.console, progress.metrics_bytes) as self.report:
            while not reason:
                reason = self._epoch()
            if not self.interrupted:
                progress.finished = reason
                if progress.interval.updates:
                    self._log()
                if progress.validated_update != progress.update:
                    self._validate()
            self._save()
        return self._result(reason)

    def _result(self, reason: str) -> TrainingResult:
        scores = dict(self.folder.scores)
        return TrainingResult(self.config.output, scores, reason, self.interrupted)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first Ctrl-C end the run after the step under way; the second ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: object) -> None:
            self.interrupted = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @property
    def _models(self) -> dict[str, nn.Module]:
        models: dict[str, nn.Module] = {"model": self.model}
        if self.folder.model is not self.model:
            models["average"] = self.folder.model
        return models

    def _claim_folder(self, resume: bool) -> bool:
        """Make the output folder; true if there is a saved run to go on from."""
        output = self.config.output
        if output.exists() and not output.is_dir():
            raise UserError(f"output = '{output}' is a file; name a folder to train into.")
        refuse_int8(output)
        if (output / CONFIG).exists() and not resume:
            raise UserError(
                f"{output} holds a run already. Go on with it by --resume, or name another folder "
                "by --set output=..."
            )
        try:
            self.state_path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{output} cannot be made: {error.strerror}.") from None
        return self.state_path.exists()

    def _introduce(self) -> None:
        """The data report."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        choice = kernels.choose("additive_scores", self.device.type, torch.float32)
        lines = [
            *self.task.data_lines(),
            f"model     {parameters:,} parameters, {self.updates_per_epoch:,} updates an epoch",
            f"compute   {self.device.type}, {torch.get_num_threads()} threads, products in "
            f"{self.precision.name} ({self.precision.reason}), attention by "
            f"the {choice.backend} kernels",
        ]
        if self.progress.update:
            lines.append(f"resumed   after update {self.progress.update}")
        for line in lines:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _epoch(self) -> str:
        """Train on what is left of an epoch; the reason to stop, or ''."""
        progress, training = self.progress, self.config.training
        plan = self.task.plan(progress.epoch)
        with BatchLoader(self.task.batch, plan, progress.position) as loader:
            while batches := list(itertools.islice(loader, training.accumulate)):
                self._update(batches)
                progress.interval.waited += loader.waited
                loader.waited = 0.0
                progress.position += len(batches)
                if progress.update % training.log_every == 0:
                    self._log()
                every = training.validate_every
                if validated := every > 0 and progress.update % every == 0:
                    self._validate()
                if reason := self._reason_to_stop():
                    return reason
                if validated or self._save_is_due():
                    self._save()
        # A run that stopped at the end of an epoch and goes on has validated there already.
        if not training.validate_every and progress.validated_update != progress.update:
            self._validate()
        progress.epoch += 1
        progress.position = 0
        if not training.validate_every:
            self._save()
        return self._reason_to_stop()

    def _reason_to_stop(self) -> str:
        progress, training = self.progress, self.config.training
        if self.interrupted:
            return "interrupted"
        if training.patience and progress.stale_validations >= training.patience:
            return f"no better {training.best_by} in {training.patience} validations"
        if progress.epoch > training.max_epochs:
            return f"{training.max_epochs} epochs done"
        if training.max_updates and progress.update >= training.max_updates:
            return f"{training.max_updates} updates done"
        if progress.planned_updates and progress.update >= progress.planned_updates:
            return f"{progress.planned_updates} planned updates done"
        if training.max_minutes and self._seconds() >= 60 * training.max_minutes:
            return f"{training.max_minutes:g} minutes over"
        return ""

    def _update(self, batches: list[TrainingBatch]) -> None:
        progress, interval = self.progress, self.progress.interval
        number = progress.update + 1
        self.rate = self.schedule.rate(number, progress.epoch, self._planned_updates)
        updated = self.updater.update(batches, self.rate)
        if not math.isfinite(updated.loss) or not math.isfinite(updated.gradient_norm):
            raise UserError(self._divergence(number, updated))
        if self.folder.model is not self.model:
            self.average.update(number)
        progress.update = number
        interval.updates += 1
        interval.loss += updated.loss
        interval.likelihood += updated.likelihood
        interval.gradient_norm += updated.gradient_norm
        interval.source_tokens += sum(batch.source_tokens for batch in batches)
        interval.target_tokens += sum(batch.target_tokens for batch in batches)

    def _divergence(self, number: int, updated: Updated) -> str:
        finite = math.isfinite(updated.loss)
        norm = f"the gradient norm is {updated.gradient_norm}"
        what = norm if finite else f"the loss is {updated.loss}"
        best, saved = self.progress.best_update, self.state_path
        kept = f"the weights of update {best} in {self.config.output}" if best else "no weights yet"
        again = f", and the last save in {saved}" if saved.exists() else ""
        return (
            f"Training diverged: in update {number} {what}. Kept are {kept}{again}. "
            "Lower training.learning_rate or training.clip_norm, or add training.warmup_updates."
        )

    @property
    def _most_updates(self) -> int:
        """Updates of the whole run, were there no limit of time."""
        training = self.config.training
        updates = training.max_epochs * self.updates_per_epoch
        return min(updates, training.max_updates or updates)

    @property
    def _planned_updates(self) -> int | None:
        """Updates of the whole run; None while a time limit makes it unknown."""
        progress, training = self.progress, self.config.training
        if progress.planned_updates is None and self.schedule.needs_plan and training.max_minutes:
            self._estimate_updates()
            return progress.planned_updates
        return progress.planned_updates or self._most_updates

    def _estimate_updates(self) -> None:
        """Under a time limit, plan the updates once, shortly before the rate is to fall."""
        progress, training = self.progress, self.config.training
        seconds, share = self._seconds(), self._fraction_done()
        updating = seconds - progress.validating_seconds
        due = max(0.05, 0.8 * training.decay_start)
        if progress.timed_from is None:
            # The first updates are slower, as kernels are compiled: they say little of the rest.
            if progress.update and share >= due / 2:
                progress.timed_from = (progress.update, updating, share)
            return
        update, since, start = progress.timed_from
        if progress.update == update or share < max(due, start + due / 2):
            return
        left = max(0.0, 60 * training.max_minutes - seconds - progress.validation_seconds)
        pace = (progress.update - update) / (updating - since)
        planned = progress.update + max(1, int(left * pace))
        progress.planned_updates = min(planned, self._most_updates)
        progress.planned_minutes = training.max_minutes
        self.report.say(f"planned   {progress.planned_updates} updates in the time limit")
        self._save()

    def _log(self) -> None:
        progress, interval = self.progress, self.progress.interval
        seconds = self._seconds()
        elapsed = max(seconds - interval.seconds, 1e-9)
        tokens = interval.target_tokens
        row = {
            "step": progress.update,
            "epoch": progress.epoch,
            "seconds": round(seconds, 3),
            "loss": interval.loss / tokens,
            "perplexity": perplexity(interval.likelihood / tokens),
            "learning_rate": self.rate,
            "gradient_norm": interval.gradient_norm / interval.updates,
            "source_tokens_per_second": round(interval.source_tokens / elapsed, 1),
            "target_tokens_per_second": round(tokens / elapsed, 1),
            "wait_share": round(interval.waited / elapsed, 5),
        }
        fraction = self._fraction_done()
        left = seconds / fraction - seconds if fraction else 0.0
        self.report.training(row, left)
        self.report.advance(fraction, progress.epoch)
        progress.interval = Interval(seconds=seconds)

    def _fraction_done(self) -> float:
        training = self.config.training
        planned = self.progress.planned_updates or self._most_updates
        done = self.progress.update / planned
        if training.max_minutes:
            done = max(done, self._seconds() / (60 * training.max_minutes))
        return min(done, 1.0)

    def _validate(self) -> None:
        """Validate, keep the weights if they are the best, and note how stale they are."""
        progress = self.progress
        start = self._seconds()
        validated = self.task.validate(self.folder)
        scores = validated.scores
        by = self.config.training.best_by
        score = -scores["loss"] if by == "loss" else scores[by]
        # Where words are few, BLEU may be 0 for long: among equals the lower loss is better.
        best = progress.best_score is None or (score, -scores["loss"]) > (
            progress.best_score,
            -progress.best_scores["loss"],
        )
        if best:
            progress.best_score, progress.best_update = score, progress.update
            progress.stale_validations = 0
            signatures = validated.signatures
            progress.best_scores = {**scores, "step": progress.update, "signatures": signatures}
            self.folder.scores.update(progress.best_scores)
            save_folder(self.folder, self.config.output)
        else:
            progress.stale_validations += 1
        self.schedule.observe(best)
        seconds = self._seconds()
        progress.validated_update = progress.update
        progress.validation_seconds = seconds - start
        progress.validating_seconds += seconds - start
        row = {
            "step": progress.update,
            "epoch": progress.epoch,
            "seconds": round(seconds, 3),
            "validating_seconds": round(progress.validating_seconds, 3),
            **scores,
        }
        self.report.validation(row, best, validated.samples)
        progress.interval.seconds += seconds - start

    def _save_is_due(self) -> bool:
        every = self.config.training.save_every
        if every:
            return self.progress.update % every == 0
        return time.monotonic() - self._saved > SAVE_SECONDS

    def _save(self) -> None:
        progress = self.progress
        progress.seconds = self._seconds()
        progress.schedule = (self.schedule.factor, self.schedule.stale)
        progress.metrics_bytes = self.report.sync()
        save_state(self.state_path, progress, self._models, self.updater.optimizer, self.identity)
        self._saved = time.monotonic()

    def _seconds(self) -> float:
        """Wall-clock time of all parts of the run."""
        return time.monotonic() - self._started
