"""Programs that eager tensors have recorded (eager/Tape.h): compiled once for each structure, and run."""

from .programs import Program, program_of, statistics

__all__ = ["Program", "program_of", "statistics"]
