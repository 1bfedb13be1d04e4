# Does: imports a module that does not exist.
# Must be: load_failed because it cannot be loaded.
import torch
import a_module_that_nobody_has
