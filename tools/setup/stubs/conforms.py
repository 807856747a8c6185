"""A board is what its interface says: checked by typecheck, never run."""

from interface import Board, SetUp, Trial, WakePin

import board
import setup_board
import trial
import wake_pin

of_a_board: Board = board
of_its_set_up: SetUp = setup_board
of_a_trial: Trial = trial
of_a_pin: WakePin = wake_pin
