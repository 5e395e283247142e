"""Pictures in one style: colour-blind safe, readable in a paper column and on a slide."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
