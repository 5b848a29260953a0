"""Settings shared by all tests."""

import signal

import torch

torch.set_num_threads(1)  # several test processes share the machine's cores
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
