"""Settings shared by all tests."""

import torch

torch.set_num_threads(1)  # several test processes share the machine's cores
