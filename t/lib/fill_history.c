/* SPDX-License-Identifier: Apache-2.0 */
/* fill_history FILE: gives each minute of the week before the newest one of a history the
 * figures of that one, as a collector has written after a week. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "ctl_history_format.h"

static int put(int fd, uint32_t band, uint32_t minute, ctl_history_page_t page)
{
    page.minute = minute;
    page.sum = ctl_history_sum(&page);
    return pwrite(fd, &page, sizeof(page),
                  (off_t)ctl_history_page_at(CTL_HISTORY_SLOTS, band, minute))
           == (ssize_t)sizeof(page);
}

int main(int argc, char *argv[])
{
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    uint32_t bands = fd < 0 ? 0 : ctl_history_bands(CTL_HISTORY_SLOTS,
                                                   (uint64_t)lseek(fd, 0, SEEK_END));
    ctl_history_page_t page, newest;
    uint32_t band, slot, back, minute = 0;

    for (band = 0; band < bands; band++) {
        newest.minute = 0;
        for (slot = 0; slot < CTL_HISTORY_SLOTS; slot++) {
            if (pread(fd, &page, sizeof(page),
                      (off_t)ctl_history_page_at(CTL_HISTORY_SLOTS, band, slot))
                == (ssize_t)sizeof(page) && page.minute > newest.minute)
                newest = page;
        }
        if (!newest.minute || (minute && newest.minute != minute))
            return 1;
        minute = newest.minute;
        for (back = 1; back < CTL_HISTORY_SLOTS; back++) {
            if (!put(fd, band, minute - back, newest))
                return 1;
        }
        /* All sites have been there for a week. */
        for (slot = 0; slot < CTL_HISTORY_BAND_SITES; slot++) {
            const uint32_t since = minute - CTL_HISTORY_SLOTS;

            if (pwrite(fd, &since, sizeof(since),
                       (off_t)(ctl_history_table_at(CTL_HISTORY_SLOTS, band)
                               + slot * sizeof(ctl_history_site_t))) != (ssize_t)sizeof(since))
                return 1;
        }
    }
    return bands ? 0 : 1;
}
