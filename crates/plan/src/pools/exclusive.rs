use super::{CardFull, Grain, Headroom};

/// `ExclusiveMemoryPool`: one allocation a page. Pages that stay unused for a long time are given back.
#[derive(Debug)]
pub(super) struct ExclusivePool {
    pages: Vec<Page>,
    /// The largest allocation that the pool accepts.
    most_bytes: u64,
    /// Allocations of all pools between two checks of the pages.
    check_period: u64,
    last_check: u64,
    /// The moving average of the sizes that were asked for, the least size of a new page.
    average_bytes: f64,
    next_id: u64,
    grain: Grain,
}

#[derive(Debug)]
struct Page {
    bytes: u64,
    /// Its allocation; `None` if it is unused.
    id: Option<u64>,
    /// How often a check found it unused, less its uses.
    unused: u32,
}

/// The weight of the newest size in the average.
const DECAY: f64 = 0.01;

/// The number of checks after which an unused page is given back.
const CHECKS: u32 = 5;

impl ExclusivePool {
    /// A pool that gives back pages after `period` allocations without use.
    pub(super) fn new(most_bytes: u64, period: u64, grain: Grain) -> Self {
        Self {
            pages: Vec::new(),
            most_bytes,
            check_period: period / u64::from(CHECKS),
            last_check: 0,
            average_bytes: most_bytes as f64 / 2.0,
            next_id: 0,
            grain,
        }
    }

    pub(super) fn accepts(&self, bytes: u64) -> bool {
        self.most_bytes >= bytes
    }

    /// The unused page that is large enough and was used last, else a new one.
    pub(super) fn reserve(&mut self, bytes: u64, headroom: Headroom) -> Result<u64, CardFull> {
        self.average_bytes = self.average_bytes * (1.0 - DECAY) + bytes as f64 * DECAY;
        let id = self.next_id;
        let fitting = self.pages.iter_mut().filter(|page| page.id.is_none() && page.bytes >= bytes);
        if let Some(page) = fitting.min_by_key(|page| page.unused) {
            page.unused = page.unused.saturating_sub(1);
            page.id = Some(id);
        } else {
            let page = self.grain.padded((self.average_bytes as u64).max(bytes));
            headroom.check(page)?;
            // A new page is suspected of being unused until it proves useful.
            self.pages.push(Page { bytes: page, id: Some(id), unused: CHECKS - 1 });
        }
        self.next_id += 1;
        Ok(id)
    }

    pub(super) fn free(&mut self, id: u64) {
        for page in self.pages.iter_mut().filter(|page| page.id == Some(id)) {
            page.id = None;
        }
    }

    /// Looks for unused pages if the time for a check has come, at the allocation of this number.
    pub(super) fn pass(&mut self, allocation: u64) {
        if allocation - self.last_check < self.check_period {
            return;
        }
        self.last_check = allocation;
        self.pages.retain_mut(|page| {
            if page.id.is_some() {
                return true;
            }
            page.unused += 1;
            page.unused < CHECKS
        });
    }

    pub(super) fn clean_up(&mut self) {
        self.pages.retain(|page| page.id.is_some());
    }

    pub(super) fn reserved(&self) -> u64 {
        self.pages.iter().map(|page| page.bytes).sum()
    }

    /// The bytes of the card for it.
    pub(super) fn charged(&self) -> u64 {
        self.pages.iter().map(|page| self.grain.charged(page.bytes)).sum()
    }
}
