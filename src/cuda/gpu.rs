//! An open GPU: its context, and the resources that wait for reuse.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cudarc::driver::{CudaContext, result, sys};

use super::combine::Combinations;
use super::convert::Conversions;
use super::copy::PinnedPool;
use super::declared::DeclaredKernels;
use super::event::EventPool;
use super::exact::ExactSums;
use super::graph::GraphPool;
use super::kernels::Kernels;
use super::pool::BlockPool;
use super::stream::StreamPool;
use super::{driver, event};
use crate::Result;
use crate::lock::Mutex;

/// One GPU of this process. Opened once and never closed, since enqueued work may outlive
/// everything else.
pub(crate) struct Gpu {
    ordinal: u32,
    context: Arc<CudaContext>,
    /// The stream for the host's own copies: no other work precedes or follows on it.
    copies: sys::CUstream,
    pub(super) streams: StreamPool,
    pub(super) events: EventPool,
    pub(super) blocks: BlockPool,
    pub(super) pinned: PinnedPool,
    pub(super) conversions: Conversions,
    pub(super) combinations: Combinations,
    pub(super) exact: ExactSums,
    pub(super) kernels: Kernels,
    pub(super) graphs: GraphPool,
    pub(super) declared: DeclaredKernels,
    /// 90 for compute capability 9.0.
    architecture: u32,
}

// SAFETY: a CUDA stream may be used from any thread, and the driver locks it; the rest is `Send` by
// itself.
unsafe impl Send for Gpu {}
// SAFETY: as above; the lists are behind locks.
unsafe impl Sync for Gpu {}

static OPEN: LazyLock<Mutex<HashMap<u32, &'static Gpu>>> = LazyLock::new(Mutex::default);

impl Gpu {
    /// The GPU of this ordinal, opened on first use.
    pub(crate) fn open(ordinal: u32) -> Result<&'static Self> {
        let mut open = OPEN.lock();
        if let Some(gpu) = open.get(&ordinal) {
            return Ok(gpu);
        }
        driver::sees(ordinal)?;
        let failed = |error| driver::failed("opening", ordinal, error);
        let context = CudaContext::new(ordinal as usize).map_err(failed)?;
        let copies = result::stream::create(result::stream::StreamKind::NonBlocking);
        let architecture = architecture(&context).map_err(failed)?;
        let gpu: &Self = Box::leak(Box::new(Self {
            ordinal,
            context,
            copies: copies.map_err(failed)?,
            streams: StreamPool::default(),
            events: EventPool::default(),
            blocks: BlockPool::default(),
            pinned: PinnedPool::default(),
            conversions: Conversions::default(),
            combinations: Combinations::default(),
            exact: ExactSums::default(),
            kernels: Kernels::default(),
            graphs: GraphPool::default(),
            declared: DeclaredKernels::default(),
            architecture,
        }));
        open.insert(ordinal, gpu);
        Ok(gpu)
    }

    /// Its location in the machine.
    pub(crate) fn place(&self) -> Option<String> {
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_PCI_BUS_ID as BUS, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID as DEVICE,
            CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID as DOMAIN,
        };

        let number = |attribute| self.context.attribute(attribute).ok();
        let (domain, bus, device) = (number(DOMAIN)?, number(BUS)?, number(DEVICE)?);
        Some(format!("PCI {domain:04x}:{bus:02x}:{device:02x}"))
    }

    /// Its architecture: 90 for compute capability 9.0.
    pub(super) fn architecture(&self) -> u32 {
        self.architecture
    }

    /// Its primary context.
    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Makes this GPU current on the calling thread.
    pub(crate) fn bind(&self) -> Result<()> {
        driver::is_asked();
        let own = self.context.cu_ctx();
        let failed = |error| driver::failed("binding", self.ordinal, error);
        if result::ctx::get_current().map_err(failed)? == Some(own) {
            return Ok(());
        }
        // SAFETY: the context is never destroyed.
        unsafe { result::ctx::set_current(own) }.map_err(failed)
    }

    /// Runs work on the host's own stream and waits for that work only.
    pub(super) fn now(
        &'static self,
        doing: &'static str,
        work: impl FnOnce(sys::CUstream) -> Result<(), result::DriverError>,
    ) -> Result<()> {
        self.bind()?;
        let failed = |error| driver::failed(doing, self.ordinal, error);
        work(self.copies).map_err(failed)?;
        let done = event::Event::recorded(self, self.copies);
        done.and_then(|event| event.sync().map_err(failed)).inspect_err(|_| {
            // The work may be under way, using the caller's memory. SAFETY: the stream is never
            // destroyed.
            let _ = unsafe { result::stream::synchronize(self.copies) };
        })
    }

    /// Enqueues NCCL work on the host's own stream and waits for it.
    pub(crate) fn now_with(
        &'static self,
        work: impl FnOnce(*mut std::ffi::c_void) -> Result<()>,
    ) -> Result<()> {
        self.bind()?;
        work(self.copies.cast())?;
        let event = event::Event::recorded(self, self.copies)?;
        event.sync().map_err(|error| driver::failed("setting up windows", self.ordinal, error))
    }

    /// Whether work on any stream of ours is not over. Never blocks.
    pub(crate) fn is_busy(&self) -> bool {
        self.bind().is_ok() && self.streams.any_busy()
    }

    /// Returns unused memory to the driver, which waits for all work on the device.
    pub(crate) fn trim(&'static self) -> Result<()> {
        self.bind()?;
        self.blocks.trim(self)
    }
}

fn architecture(context: &CudaContext) -> Result<u32, result::DriverError> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };

    let (major, minor) = (context.attribute(MAJOR)?, context.attribute(MINOR)?);
    Ok(major.unsigned_abs() * 10 + minor.unsigned_abs())
}
