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

"""Take huge pages as a process does that Nova does not know of.

Run as a script: PAGES CPU [FILE]. Takes pages of 2 MiB, in a file of a
hugetlbfs or else in no file, and touches them from one CPU, so that they come
from its node. Says so, and lets go when its input ends.
"""

import mmap
import os
import sys

PAGE = 2 << 20
MAP_HUGETLB = 0x40000


def main() -> None:
    size = int(sys.argv[1]) * PAGE
    os.sched_setaffinity(0, {int(sys.argv[2])})
    if len(sys.argv) > 3:
        file = os.open(sys.argv[3], os.O_CREAT | os.O_EXCL | os.O_RDWR)
        os.unlink(sys.argv[3])
        os.ftruncate(file, size)
        memory = mmap.mmap(file, size)
    else:
        memory = mmap.mmap(
            -1,
            size,
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB,
        )
    for offset in range(0, size, PAGE):
        memory[offset] = 1
    sys.stdout.write('taken\n')
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == '__main__':
    main()
