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

import importlib
import os
import pathlib
import sys

# Nova's functional tests patch the standard library where Nova's services do;
# that has to come before anything else is imported.
import nova.tests.functional  # noqa: F401

# With Nova 32 it is this that does it.
importlib.import_module('nova.test')

# Nova's fixtures look for this file beside the nova package, while its wheel
# installs it below the prefix.
os.environ.setdefault(
    'OS_WSGI__API_PASTE_CONFIG',
    str(pathlib.Path(sys.prefix, 'etc/nova/api-paste.ini')),
)
