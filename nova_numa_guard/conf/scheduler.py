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

"""Options that the scheduler alone reads."""

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.FloatOpt(
        'weight_multiplier',
        default=100.0,
        min=0.0,
        help="""
How much the NUMA guard's weigher counts.

The weigher gives a host 1.0 if all its guests are of the kind of the guest
that is to be placed, 0.5 if it is empty, and 0.0 if all its guests are of the
other kind; and up to 0.01 more for what is free in the pools of pages that the
guest needs. Nova's own weighers (RAM, CPU, disk, PCI, soft affinity and
anti-affinity) give up to 1.0 times their multipliers, 1.0 each by default. So
the default lets this one outweigh them together: guests of a kind are stacked
on the hosts that have such guests, and empty hosts are kept empty.

Hosts that lately refused a guest for want of pages which this one needs too,
and hosts of the wrong kind for a guest that moves, come last, even after those
that Nova's weigher for failed builds has put behind all others if the
multiplier is above 1.

Possible values:

* An integer or float value; 0 turns the weigher off. Below 1, Nova's weighers
  spread guests as they do without it.

Related options:

* The aggregate metadata ``numa_guard_weight_multiplier`` overrides it for the
  hosts of an aggregate; of several values the smallest is used, and one below
  0 is taken for 0.
* ``[filter_scheduler] weight_classes``
""",
    ),
]
