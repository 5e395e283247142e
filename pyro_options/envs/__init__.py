"""Environments and experts; importing it registers ``pyro_options/Message-v0`` and ``pyro_options/Switches-v0``."""

import gymnasium as gym
import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

for _name, _class in (("Message", "message_task:MessageEnv"), ("Switches", "switches:SwitchesEnv")):
    if f"pyro_options/{_name}-v0" not in gym.registry:
        gym.register(f"pyro_options/{_name}-v0", entry_point=f"pyro_options.envs.{_class}")
