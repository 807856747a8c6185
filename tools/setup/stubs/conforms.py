"""A board is what its interface says: checked by typecheck, never run."""

from interface import Board, SetUp, Trial

import board
import setup_board
import trial

of_a_board: Board = board
of_its_set_up: SetUp = setup_board
of_a_trial: Trial = trial
