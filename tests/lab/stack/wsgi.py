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

"""Serve a WSGI application: script MODULE PORT."""

import importlib
import sys

import waitress


def main() -> None:
    module, port = sys.argv[1:]
    # The services read the arguments as theirs.
    sys.argv = [module]
    waitress.serve(
        importlib.import_module(module).application,
        host='127.0.0.1',
        port=int(port),
        threads=4,
        ident=None,
    )


if __name__ == '__main__':
    main()
