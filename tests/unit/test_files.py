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

"""Files that are opened once and read many times."""

import gc
import os
import pathlib
import threading
from unittest import mock

import fixtures

from nova_numa_guard import files
from tests.unit import base


class FilesTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.kept = files.KeptFiles()
        self.addCleanup(self.kept.close)

    def put(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def open_here(self):
        """The files of the folder that this process has open."""
        gc.collect()  # of errors, with what they point to
        found = []
        for number in os.listdir('/proc/self/fd'):
            try:
                target = os.readlink(f'/proc/self/fd/{number}')
            except FileNotFoundError:
                continue  # that of the listing itself
            if target.startswith(str(self.folder)):
                found.append(pathlib.Path(target).name)
        return sorted(found)

    def count_opens(self):
        return self.useFixture(
            fixtures.MockPatchObject(os, 'open', wraps=os.open)
        ).mock


class KeptFilesTest(FilesTestCase):
    def test_what_it_holds_now(self):
        path = self.put('free', '512\n')
        self.assertEqual('512\n', self.kept.read(path))
        for text in ('7\n', '1048576\n', ''):
            self.put('free', text)
            self.assertEqual(text, self.kept.read(path))

    def test_it_is_opened_once(self):
        path = self.put('free', '512\n')
        opens = self.count_opens()
        for _ in range(3):
            self.kept.read(path)
        opens.assert_called_once_with(path, os.O_RDONLY)
        self.assertEqual(['free'], self.open_here())

    def test_no_child_inherits_it(self):
        self.kept.read(self.put('free', '512\n'))
        [number] = (
            int(name)
            for name in os.listdir('/proc/self/fd')
            if os.path.realpath(f'/proc/self/fd/{name}')
            == os.path.realpath(self.folder / 'free')
        )
        self.assertFalse(os.get_inheritable(number))

    def test_files_are_apart(self):
        paths = [self.put(f'file{n}', f'{n}\n') for n in range(20)]
        for _ in range(2):
            self.assertEqual(
                [f'{n}\n' for n in range(20)], list(map(self.kept.read, paths))
            )

    def test_a_file_of_any_length(self):
        for length in (0, 1, 4095, 4096, 4097, 8192, 20000):
            text = ''.join(map(str, range(length)))[:length]
            path = self.put('meminfo', text)
            self.assertEqual(text, self.kept.read(path))

    def test_bytes_that_are_not_text(self):
        path = self.put('free', '')
        (self.folder / 'free').write_bytes(b'\xff\n')
        self.assertEqual(b'\xff\n', os.fsencode(self.kept.read(path)))

    def test_a_missing_file(self):
        path = str(self.folder / 'free')
        self.assertRaises(FileNotFoundError, self.kept.read, path)
        self.put('free', '512\n')
        self.assertEqual('512\n', self.kept.read(path))

    def test_a_folder_is_not_kept(self):
        self.assertRaises(IsADirectoryError, self.kept.read, str(self.folder))
        self.assertEqual([], self.open_here())

    def test_a_node_that_went_away_and_came_back(self):
        """Its files have the same names; of the old ones sysfs says ENODEV."""
        path = self.put('free', 'old\n')
        self.kept.read(path)
        (self.folder / 'free').unlink()
        self.put('free', 'new\n')
        pread = os.pread
        for error in (19, 2, 9, 5):
            failed = []

            def once(*args, error=error, failed=failed):
                if not failed:
                    failed.append(True)
                    raise OSError(error, os.strerror(error))
                return pread(*args)

            with mock.patch.object(os, 'pread', once):
                self.assertEqual('new\n', self.kept.read(path))
            self.assertEqual([True], failed)
            self.assertEqual('new\n', self.kept.read(path))
            self.assertEqual(['free'], self.open_here())

    def test_a_node_that_went_away(self):
        path = self.put('free', '512\n')
        self.kept.read(path)
        (self.folder / 'free').unlink()

        def gone(*args):
            raise OSError(19, 'No such device')

        with mock.patch.object(os, 'pread', gone):
            self.assertRaises(FileNotFoundError, self.kept.read, path)
        self.assertEqual([], self.open_here())

    def test_an_error_that_stays_is_raised(self):
        path = self.put('free', '512\n')
        self.kept.read(path)
        for _ in range(2):
            with mock.patch.object(os, 'pread', side_effect=OSError(5, 'io')):
                exc = self.assertRaises(OSError, self.kept.read, path)
            self.assertEqual(5, exc.errno)
        self.assertEqual('512\n', self.kept.read(path))

    def test_not_more_than_the_limit(self):
        kept = files.KeptFiles(limit=2)
        self.addCleanup(kept.close)
        paths = [self.put(f'file{n}', f'{n}\n') for n in range(4)]
        for _ in range(2):
            self.assertEqual(
                ['0\n', '1\n', '2\n', '3\n'], list(map(kept.read, paths))
            )
        self.assertEqual(['file0', 'file1'], self.open_here())

    def test_close(self):
        path = self.put('free', '512\n')
        self.kept.read(path)
        self.kept.close()
        self.assertEqual([], self.open_here())
        self.kept.close()
        self.assertEqual('512\n', self.kept.read(path))
        self.assertEqual(['free'], self.open_here())

    def test_nothing_stays_open_of_a_reader_that_is_forgotten(self):
        kept = files.KeptFiles()
        kept.read(self.put('free', '512\n'))
        self.assertEqual(['free'], self.open_here())
        del kept
        self.assertEqual([], self.open_here())


class ThreadsTest(FilesTestCase):
    def test_a_number_does_not_change_hands_within_a_read(self):
        """What is closed meanwhile stays open until the read has ended."""
        path = self.put('free', '512\n')
        other = self.put('secret', 'other\n')
        self.kept.read(path)
        pread = os.pread
        numbers = []

        def interrupted(number, size, offset):
            self.kept.close()
            numbers.append(os.open(other, os.O_RDONLY))
            self.addCleanup(os.close, numbers[-1])
            return pread(number, size, offset)

        with mock.patch.object(os, 'pread', interrupted):
            self.assertEqual('512\n', self.kept.read(path))
        self.assertEqual(1, len(numbers))

    def test_many_readers(self):
        """Of the same files, while somebody closes them again and again."""
        paths = [self.put(f'file{n}', f'{n}\n' * 2000) for n in range(8)]
        wrong = []
        ready = threading.Barrier(5)

        def reader():
            ready.wait()
            for _ in range(40):
                for number, path in enumerate(paths):
                    try:
                        text = self.kept.read(path)
                    except OSError as exc:
                        wrong.append(exc)
                    else:
                        if text != f'{number}\n' * 2000:
                            wrong.append(text[:10])

        threads = [threading.Thread(target=reader) for _ in range(4)]
        for thread in threads:
            thread.start()
        ready.wait()
        while any(thread.is_alive() for thread in threads):
            self.kept.close()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong)
