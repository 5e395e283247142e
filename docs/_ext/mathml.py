"""Formulas as MathML, which browsers draw themselves: pages need neither a script nor the network."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, as_block: bool) -> str:
    try:
        return str(latex2mathml.tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("Expected LaTeX that MathML can show but got %r: %s", node.astext(), error, location=node)
        return node.astext()


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node, False))
    raise nodes.SkipNode


def _block(translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_mathml(node, True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
