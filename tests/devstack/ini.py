# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Options in an ini file, as far as devstack's functions know it.

    ini.py get FILE SECTION OPTION
    ini.py set FILE SECTION OPTION [VALUE]...

Lines stay as they are otherwise. Without a value the option is deleted.
"""

import pathlib
import re
import sys


def main(verb, path, section, option, *values):
    file = pathlib.Path(path)
    lines = file.read_text().splitlines()
    header = f'[{section}]'
    found = [
        index
        for index, line in enumerate(lines)
        if re.match(rf'{re.escape(option)}[ \t]*=', line)
        and _section(lines, index) == header
    ]
    if verb == 'get':
        for index in found:
            print(lines[index].partition('=')[2].strip())  # noqa: T201
        return
    for index in reversed(found):
        del lines[index]
    if values:
        if header not in lines:
            lines += ['', header]
        place = found[0] if found else lines.index(header) + 1
        lines[place:place] = [f'{option} = {value}' for value in values]
    file.write_text('\n'.join(lines) + '\n')


def _section(lines, index):
    headers = [line for line in lines[:index] if line.startswith('[')]
    return headers[-1] if headers else ''


if __name__ == '__main__':
    main(*sys.argv[1:])
