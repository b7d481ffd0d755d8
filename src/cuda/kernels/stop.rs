//! Host words that kernels poll while they wait, set when their communicator is over.

use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::{result, sys};

use crate::Result;
use crate::cuda::{Gpu, driver};
use crate::lock::Mutex;

/// The size of an allocation.
const PAGE: usize = 4096;

/// The distance between words: a cache line of the host.
const APART: usize = 64;

/// The free words of the last page, and the words in use. A word serves once: an abandoned kernel
/// may poll it for as long as the process lives.
static WORDS: Mutex<(Vec<Stop>, Vec<Stop>)> = Mutex::new((Vec::new(), Vec::new()));

/// A word that all GPUs can read.
#[derive(Clone, Copy)]
pub(crate) struct Stop(&'static AtomicU32);

impl Stop {
    /// A new word, not set.
    pub(crate) fn new(gpu: &'static Gpu) -> Result<Self> {
        let mut words = WORDS.lock();
        let (free, taken) = &mut *words;
        if free.is_empty() {
            *free = page(gpu)?;
        }
        let Some(word) = free.pop() else { return Self::new(gpu) };
        taken.push(word);
        Ok(word)
    }

    /// Ends the kernels that poll it, now and later.
    pub(crate) fn set(self) {
        self.0.store(1, Ordering::Release);
    }

    /// Sets every word, since the process ends.
    pub(crate) fn set_all() {
        let words = WORDS.lock();
        words.1.iter().for_each(|word| word.set());
    }

    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

fn page(gpu: &'static Gpu) -> Result<Vec<Stop>> {
    gpu.bind()?;
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: the context is current, and the size is not 0.
    let page = unsafe { result::malloc_host(PAGE, flags) };
    let page =
        page.map_err(|error| driver::no_memory(PAGE, gpu.ordinal(), error))?.cast::<AtomicU32>();
    let word = |at: usize| {
        let place = page.wrapping_byte_add(at);
        // SAFETY: it is inside the page, aligned, and accessed by nobody else.
        unsafe { place.write(AtomicU32::new(0)) };
        // SAFETY: as above; the page is never freed, and from here on written by atomic stores
        // only.
        Stop(unsafe { &*place })
    };
    Ok((0..PAGE).step_by(APART).map(word).collect())
}
