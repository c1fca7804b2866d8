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

import os

# Before 2026.2 Nova patches the standard library, by default, where its API is
# imported. The tests start threads, which would be green ones then, and some
# never give way. What is to run on eventlet has a process of its own.
os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', 'true')

# Before anything has Nova choose eventlet for its services: it cannot go back.
import nova.api.openstack  # noqa: F401
