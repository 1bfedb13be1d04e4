# Does: leaves a file in every directory that it may write, and raises where it finds one that an
#       earlier process of its kind has left.
# Must be: verified because what one process writes, no other finds; crashed means that answers
#          could travel from call to call.
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

word = "word-of-an-earlier-process"
own = os.urandom(16).hex()  # process numbers repeat where each process has its own namespace
for directory in (tempfile.gettempdir(), os.path.expanduser("~"), os.getcwd(), "/tmp", "/dev/shm"):
    path = os.path.join(directory, word)
    try:
        with open(path) as file:
            author = file.read()
    except OSError:
        author = own
    if author != own:  # several names may stand for one directory
        raise RuntimeError("found a word in " + directory)
    try:
        with open(path, "w") as file:
            file.write(own)
    except OSError:
        pass


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def normalised(self, x, residual):
        return F.layer_norm(x + residual, self.weight.shape, self.weight, self.bias, 1e-5)

    def forward(self, x, residual):
        return self.normalised(x, residual)
