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

"""The XML of a floating guest, confined and released."""

import difflib

import hypothesis
from hypothesis import strategies as st
from lxml import etree
from nova.virt import hardware

from nova_numa_guard import confinement
from tests.unit import base, samples

SETS = st.frozensets(st.integers(0, 200), min_size=1, max_size=12)
CONFINEMENTS = st.builds(
    confinement.Confinement, SETS, SETS, st.sampled_from(confinement.Mode)
)
CELL_0 = confinement.Confinement(frozenset({0}), frozenset(range(8)))

# What libvirt prints of a floating guest that runs on floating cells.
LIBVIRT_XML = """\
<domain type='kvm' id='7'>
  <name>instance-00000007</name>
  <memory unit='KiB'>2097152</memory>
  <vcpu placement='static' cpuset='16-19'>2</vcpu>
  <cputune>
    <shares>2048</shares>
    <vcpupin vcpu='0' cpuset='16-19'/>
  </cputune>
  <numatune>
    <memory mode='strict' nodeset='2'/>
  </numatune>
  <cpu mode='host-model' check='partial'>
    <topology sockets='2' dies='1' cores='1' threads='1'/>
  </cpu>
</domain>
"""

VCPU = ('<vcpu>2</vcpu>', '<vcpu cpuset="0-3,^1">2</vcpu>')
NUMATUNE = (
    '',
    '<numatune/>',
    '<numatune>\n    </numatune>',
    '<numatune><memory mode="strict" nodeset="3"/></numatune>',
    '<numatune>\n    <memory mode="preferred" nodeset="0-1"/>\n  </numatune>',
)
OTHERS = (
    '<name>a</name>',
    '<cputune><vcpupin vcpu="0" cpuset="4"/><emulatorpin cpuset="4"/>'
    '</cputune>',
    '<cpu mode="host-model"/>',
    '<!-- numatune -->',
    '<metadata><n:i xmlns:n="urn:n"><n:memory/>\u00e9</n:i></metadata>',
)


@st.composite
def floating(draw):
    """The XML of floating guests, whatever wrote it."""
    parts = [draw(st.sampled_from(VCPU)), draw(st.sampled_from(NUMATUNE))]
    parts += draw(st.lists(st.sampled_from(OTHERS), unique=True))
    between = draw(st.sampled_from(['', '\n', '\n  ']))
    end = draw(st.sampled_from(['', '\n']))
    body = between.join(('', *filter(None, draw(st.permutations(parts)))))
    return f'<domain type="kvm">{body}{between.rstrip(" ")}</domain>{end}'


AFFINED = st.sampled_from(
    [
        samples.LIBVIRT_XML,
        samples.domain_xml((0, 1048576, None)),
        samples.domain_xml((0, 1048576, 2048), (1, 1048576, None)),
        # Where the host has no NUMA Nova writes no <numatune>.
        samples.domain_text(cells='<cell id="0" memory="1"/>'),
        # With the small_page_policy local nothing is left of it.
        '<domain ><vcpu>2</vcpu><cpu><numa><cell id="0"/></numa></cpu>'
        '</domain>',
        '<domain><vcpu >2</vcpu><numatune><memory mode="strict" nodeset="0"/>'
        '<memnode cellid="0" mode="strict" nodeset="0"/></numatune></domain>',
    ]
)


def parts(xml):
    """The CPUs, and the (mode, nodes) of each <memory>."""
    root = etree.fromstring(xml)
    cpuset = root.find('vcpu').get('cpuset')
    return (
        None if cpuset is None else hardware.parse_cpu_spec(cpuset),
        [
            (
                memory.get('mode'),
                hardware.parse_cpu_spec(memory.get('nodeset')),
            )
            for memory in root.iterfind('numatune/memory')
        ],
    )


def rest(xml):
    """All but the CPUs of <vcpu>, and <numatune>."""
    root = etree.fromstring(xml)
    root.find('vcpu').attrib.pop('cpuset', None)
    for numatune in root.findall('numatune'):
        tail, before = numatune.tail, numatune.getprevious()
        if before is not None:
            before.tail = (before.tail or '') + (tail or '')
        root.remove(numatune)
    return etree.canonicalize(
        etree.tostring(root, encoding='unicode'),
        strip_text=True,
        with_comments=True,
    )


class ApplyTest(base.TestCase):
    def test_as_nova_writes_it(self):
        before = samples.domain_xml()
        after = confinement.apply(before, CELL_0)
        changes = [
            line
            for line in difflib.ndiff(before.split('\n'), after.split('\n'))
            if line[0] in '+-'
        ]
        self.assertEqual(
            [
                '-   <vcpu>2</vcpu>',
                '+   <vcpu cpuset="0-7">2</vcpu>',
                '+   <numatune><memory mode="restrictive" nodeset="0"/>'
                '</numatune>',
            ],
            changes,
        )

    def test_as_libvirt_prints_it(self):
        after = confinement.apply(LIBVIRT_XML, CELL_0)
        self.assertEqual((set(range(8)), [('restrictive', {0})]), parts(after))
        self.assertEqual(rest(LIBVIRT_XML), rest(after))
        self.assertTrue(after.endswith('</domain>\n'))
        self.assertEqual(1, after.count('<numatune>'))

    def test_modes_are_what_libvirt_calls_them(self):
        self.assertEqual(
            ['restrictive', 'strict'], [m.value for m in confinement.Mode]
        )
        self.assertIs(
            confinement.Mode.RESTRICTIVE,
            confinement.Confinement(frozenset({0}), frozenset({0})).mode,
        )

    def test_sets_are_short(self):
        after = confinement.apply(
            samples.domain_xml(),
            confinement.Confinement(
                frozenset({3, 0, 1, 2, 8}), frozenset({9, 0, 8})
            ),
        )
        self.assertIn('nodeset="0-3,8"', after)
        self.assertIn('cpuset="0,8-9"', after)

    def test_pins_of_its_own_are_left_alone(self):
        after = confinement.apply(LIBVIRT_XML, CELL_0)
        self.assertIn('<vcpupin vcpu="0" cpuset="16-19"/>', after)

    def test_not_the_xml_of_a_domain(self):
        for xml in (
            '',
            'x',
            '<domain>',
            '<network/>',
            '<domain/>',
            '<domain><vcpus/></domain>',
        ):
            exc = self.assertRaises(ValueError, confinement.apply, xml, CELL_0)
            self.assertIn('not the XML of a domain', str(exc))

    @hypothesis.given(AFFINED, CONFINEMENTS)
    def test_an_affined_guest_is_returned_as_it_is(self, xml, confined):
        self.assertIs(xml, confinement.apply(xml, confined))

    @hypothesis.given(floating(), CONFINEMENTS)
    def test_it_is_confined(self, xml, confined):
        self.assertEqual(
            (confined.cpus, [(confined.mode.value, confined.nodes)]),
            parts(confinement.apply(xml, confined)),
        )

    @hypothesis.given(floating(), CONFINEMENTS)
    def test_nothing_else_changes(self, xml, confined):
        after = confinement.apply(xml, confined)
        self.assertEqual(rest(xml), rest(after))
        self.assertEqual(xml.endswith('\n'), after.endswith('\n'))

    @hypothesis.given(floating(), CONFINEMENTS)
    def test_twice_is_once(self, xml, confined):
        once = confinement.apply(xml, confined)
        self.assertEqual(once, confinement.apply(once, confined))

    @hypothesis.given(floating(), CONFINEMENTS, CONFINEMENTS)
    def test_another_confinement_replaces_it(self, xml, first, second):
        self.assertEqual(
            confinement.apply(xml, second),
            confinement.apply(confinement.apply(xml, first), second),
        )


class ReleaseTest(base.TestCase):
    def test_as_nova_writes_it(self):
        before = samples.domain_xml()
        self.assertEqual(
            before.replace('<vcpu>', '<vcpu cpuset="0-7">'),
            confinement.release(confinement.apply(before, CELL_0)),
        )

    def test_as_libvirt_prints_it(self):
        after = confinement.release(LIBVIRT_XML)
        self.assertNotIn('numatune', after)
        self.assertEqual(({16, 17, 18, 19}, []), parts(after))
        self.assertEqual(rest(LIBVIRT_XML), rest(after))

    def test_not_the_xml_of_a_domain(self):
        for xml in ('', 'x', '<domain>', '<network/>'):
            exc = self.assertRaises(ValueError, confinement.release, xml)
            self.assertIn('not the XML of a domain', str(exc))

    @hypothesis.given(AFFINED)
    def test_an_affined_guest_is_returned_as_it_is(self, xml):
        self.assertIs(xml, confinement.release(xml))

    def test_a_guest_that_is_not_confined_is_returned_as_it_is(self):
        for xml in (
            samples.domain_xml(),
            "<domain ><vcpu cpuset='0'>1</vcpu></domain>",
        ):
            self.assertIs(xml, confinement.release(xml))

    @hypothesis.given(floating(), CONFINEMENTS)
    def test_its_memory_is_free_and_its_cpus_are_not(self, xml, confined):
        after = confinement.release(confinement.apply(xml, confined))
        self.assertEqual((confined.cpus, []), parts(after))
        self.assertEqual(rest(xml), rest(after))
        self.assertNotIn('<numatune', after)

    @hypothesis.given(floating())
    def test_twice_is_once(self, xml):
        once = confinement.release(xml)
        self.assertIs(once, confinement.release(once))

    @hypothesis.given(floating(), CONFINEMENTS)
    def test_it_can_be_confined_again(self, xml, confined):
        once = confinement.apply(xml, confined)
        self.assertEqual(
            once, confinement.apply(confinement.release(once), confined)
        )
