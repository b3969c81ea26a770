# SPDX-License-Identifier: Apache-2.0
"""A hook of mkdocs: GitHub wants a | in code in a table written as \\|.  Python-Markdown prints
the backslash there, and needs none."""
import re


def on_page_markdown(markdown, **_):
    def row(match):
        return re.sub(r'`[^`\n]*`', lambda code: code[0].replace('\\|', '|'), match[0])

    return re.sub(r'^\|.*$', row, markdown, flags=re.MULTILINE)
