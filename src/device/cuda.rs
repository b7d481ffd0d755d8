//! GPUs through CUDA and NCCL.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use super::{AnyDevice, At, Device, DeviceFamily, DeviceTag, Local, Scoped, claim};
use crate::config::LaunchEvent;
use crate::cuda::{CudaBackend, CudaStream, Gpu, count, launch_event};
use crate::derived::debug;
use crate::error::{Error, LaunchFault, Launched, NoSuchDevice};
use crate::launcher::{self, Variables};
use crate::nccl::shares_gpus;
use crate::{
    Adopted, Buffer, Element, Failed, ForeignMemory, Lend, LentAs, NcclMem, Pinned, Result, Stream,
    World,
};

/// A GPU. Communication uses NCCL, which is loaded when the first communicator or window is made;
/// everything else uses CUDA's driver. Neither is needed to build.
///
/// This uses the GPU's primary context, as CUDA's runtime does, so that other libraries of the
/// process see the same memory. An opened GPU stays open until the process ends.
pub struct Cuda<Tag = Local> {
    ordinal: u32,
    tag: PhantomData<fn() -> Tag>,
}

impl<Tag> Cuda<Tag> {
    const fn new(ordinal: u32) -> Self {
        Self { ordinal, tag: PhantomData }
    }

    fn opened(ordinal: u32) -> Result<Self> {
        Gpu::open(ordinal)?;
        Ok(Self::new(ordinal))
    }
}

impl Cuda<Local> {
    /// This process's GPU: the only visible one (`CUDA_VISIBLE_DEVICES`), else the one at the
    /// launcher's local rank, else GPU 0.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoSuchDevice`]; [`Error::BadLaunch`] if the process sees
    /// several GPUs and nothing tells which is its own; an error of CUDA's.
    pub fn local() -> Result<Self> {
        Self::opened(own_gpu()?)
    }
}

impl<const N: u32> Cuda<At<N>> {
    /// GPU `N`.
    ///
    /// # Errors
    /// As [`Cuda::local`].
    pub fn open() -> Result<Self> {
        Self::opened(N)
    }
}

impl<Tag: DeviceTag> Cuda<Tag> {
    /// GPU `ordinal`, under a tag of your own.
    ///
    /// # Errors
    /// As [`Cuda::local`]; [`Error::TagTaken`]: the tag names another ordinal already.
    pub fn open_as(ordinal: u32) -> Result<Self> {
        let device = Self::opened(ordinal)?;
        claim::<Tag>(Self::KIND, ordinal)?;
        Ok(device)
    }
}

impl Cuda<AnyDevice> {
    /// GPU `ordinal`, known at run time.
    ///
    /// # Errors
    /// As [`Cuda::local`].
    pub fn any(ordinal: u32) -> Result<Self> {
        Self::opened(ordinal)
    }

    /// GPUs by ordinal.
    ///
    /// # Errors
    /// As [`Cuda::local`].
    pub fn open_each(ordinals: &[u32]) -> Result<Vec<Self>> {
        ordinals.iter().map(|&ordinal| Self::any(ordinal)).collect()
    }
}

impl Cuda {
    /// The number of GPUs that this process sees.
    ///
    /// # Errors
    /// [`Error::NoDriver`].
    pub fn count() -> Result<usize> {
        count().map(|count| count as usize)
    }
}

/// The ordinal of this process's own GPU. It never changes.
pub(crate) fn own_gpu() -> Result<u32> {
    static OWN: OnceLock<u32> = OnceLock::new();
    if let Some(&own) = OWN.get() {
        return Ok(own);
    }
    let found = launcher::find(&Variables::here())?;
    let own = chosen(count()?, found.map(|found| found.launched), shares_gpus())?;
    Ok(*OWN.get_or_init(|| own))
}

/// This process's GPU among `count`. A process that sees a single one got it from the launcher
/// (`--gpus-per-task=1`); if not, and others use it too, connecting reports that. Ranks that share
/// GPUs take them in turn.
fn chosen(count: u32, launched: Option<Launched>, shared: bool) -> Result<u32> {
    match launched {
        Some(launched) if count > 1 => match launched.local_rank {
            Some(own) if own < count || shared => Ok(own % count),
            Some(asked) => Err(Error::from(NoSuchDevice { asked, count })),
            None => Err(LaunchFault::NoLocalRank { launched, gpus: count as usize }.into()),
        },
        _ => Ok(0),
    }
}

/// The methods of [`Device`], without an import.
impl<Tag> Cuda<Tag> {
    /// The ordinal of this GPU.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Gives unused memory back to CUDA. Waits for all work of the GPU, and so for the ranks it
    /// communicates with; otherwise such memory is kept for later buffers.
    ///
    /// # Errors
    /// An error of CUDA's or NCCL's.
    pub fn trim(&self) -> Result<()> {
        Gpu::open(self.ordinal)?.trim()
    }

    /// An event that a collective records when its kernel has been launched: see [`LaunchEvent`].
    ///
    /// # Errors
    /// An error of CUDA's.
    pub fn launch_event(&self) -> Result<LaunchEvent> {
        launch_event(Gpu::open(self.ordinal)?)
    }

    /// See [`Device::zeros`].
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T, Self>> {
        Device::zeros(self, len)
    }

    /// See [`Device::nccl_zeros`].
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    pub fn nccl_zeros<T: Element>(&self, len: usize) -> Result<Buffer<T, Self, NcclMem>> {
        Device::nccl_zeros(self, len)
    }

    /// See [`Device::from_slice`].
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    pub fn from_slice<T: Element>(&self, values: &[T]) -> Result<Buffer<T, Self>> {
        Device::from_slice(self, values)
    }

    /// See [`Device::pinned`].
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    pub fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T, Self>> {
        Device::pinned(self, len)
    }

    /// See [`Device::adopt`].
    ///
    /// # Errors
    /// With the owner: the memory cannot be adopted.
    #[track_caller]
    pub fn adopt<O: ForeignMemory<Self>>(
        &self,
        owner: O,
    ) -> Result<Buffer<O::Elem, Self, Adopted<O>>, Failed<O>> {
        Device::adopt(self, owner)
    }

    /// See [`Device::lend`].
    ///
    /// # Errors
    /// Those of `work` and of what it enqueued.
    #[track_caller]
    pub fn lend<L: Lend<Self> + LentAs<Self>, R>(
        &self,
        memory: L,
        work: impl for<'b, 'v> FnOnce(&'b mut L::View<'v>) -> Result<R>,
    ) -> Result<R> {
        Device::lend(self, memory, work)
    }

    /// See [`Device::stream`].
    ///
    /// # Errors
    /// CUDA cannot open one.
    pub fn stream(&self) -> Result<Stream<Self>> {
        Device::stream(self)
    }

    /// A [`stream`](Self::stream) whose kernels the GPU starts before those of less urgent streams,
    /// where both are ready: the lower the number, the more urgent; 0 is that of every other
    /// stream. CUDA takes the nearest of its [`stream_priorities`](Self::stream_priorities)
    /// (`cuStreamCreateWithPriority`). Communication on an urgent stream is not held up by
    /// computation that fills the GPU. Local; the host does not wait.
    ///
    /// ```no_run
    /// # use typed_nccl::{Cuda, Result, Seat, Sum};
    /// # fn main() -> Result<()> {
    /// # let comm = Seat::local(1).remove(0).init(Cuda::local()?)?;
    /// let urgent = comm.device().stream_with_priority(-1)?;
    /// let mut x = comm.device().zeros::<f32>(1 << 20)?;
    /// comm.on(&urgent).all_reduce_in_place(&mut x, Sum)?;
    /// # comm.finish()
    /// # }
    /// ```
    ///
    /// # Errors
    /// CUDA cannot open one.
    pub fn stream_with_priority(&self, priority: i32) -> Result<Stream<Self>> {
        let raw = CudaStream::open(Gpu::open(self.ordinal)?, priority)?;
        Ok(Stream::opened(self, raw))
    }

    /// The priorities that streams can have, the most urgent one first: `-5..=0` on an H100
    /// (`cuCtxGetStreamPriorityRange`).
    ///
    /// # Errors
    /// An error of CUDA's.
    pub fn stream_priorities(&self) -> Result<RangeInclusive<i32>> {
        Gpu::open(self.ordinal)?.priorities()
    }
}

impl<Tag> World for Cuda<Tag> {
    type Device = Self;
}

// SAFETY: the ordinal is a field that nothing changes.
unsafe impl<Tag> Device for Cuda<Tag> {
    type Backend = CudaBackend;
    const KIND: &'static str = "cuda";

    fn ordinal(&self) -> u32 {
        self.ordinal
    }
}

impl<Tag> DeviceFamily for Cuda<Tag> {
    type Scoped<'id> = Cuda<Scoped<'id>>;

    fn scoped<'id>(ordinal: u32) -> Cuda<Scoped<'id>> {
        Cuda::new(ordinal)
    }

    fn ordinals(n: usize) -> Result<Vec<u32>> {
        let count = count()?;
        if n > count as usize && !(count > 0 && shares_gpus()) {
            let asked = u32::try_from(n.saturating_sub(1)).unwrap_or(u32::MAX);
            return Err(NoSuchDevice { asked, count }.into());
        }
        Ok((0..count).cycle().take(n).collect())
    }
}

impl<Tag> Clone for Cuda<Tag> {
    fn clone(&self) -> Self {
        Self::new(self.ordinal)
    }
}

debug!([Tag] Cuda<Tag>, self => "cuda:{}", self.ordinal);

impl LaunchEvent {
    /// An event that the program or another library made, a `cudaEvent_t`, for NCCL to record. The
    /// program waits for it by CUDA's own calls; `wait_launched` refuses it.
    ///
    /// # Safety
    /// It is an event of `device`'s GPU and lives until every call that it is passed to has
    /// completed on its stream.
    pub unsafe fn from_raw<Tag>(device: &Cuda<Tag>, event: *mut c_void) -> Self {
        Self::foreign(Device::ordinal(device), event)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails with what it did not expect")]
mod tests {
    use super::chosen;
    use crate::error::Launched;

    #[test]
    fn a_process_has_the_gpu_of_its_local_rank() {
        let variables = ["RANK", "WORLD_SIZE", "LOCAL_RANK"];
        let launched = |local_rank| {
            Some(Launched {
                launcher: "torchrun",
                rank: 7,
                size: 8,
                local_rank,
                with_address: "",
                variables,
            })
        };
        assert_eq!(chosen(4, launched(Some(3)), false).unwrap(), 3);
        // The process sees only its own GPU.
        assert_eq!(chosen(1, launched(Some(3)), false).unwrap(), 0);
        assert_eq!(chosen(1, launched(None), false).unwrap(), 0);
        assert_eq!(chosen(4, None, false).unwrap(), 0);
        // Several ranks share a GPU.
        assert_eq!(chosen(4, launched(Some(6)), true).unwrap(), 2);
        let too_high = chosen(4, launched(Some(4)), false).unwrap_err().to_string();
        assert!(too_high.contains("cuda:4") && too_high.contains("4 GPUs"), "{too_high}");
        let unknown = chosen(4, launched(None), false).unwrap_err().to_string();
        assert!(unknown.contains("set LOCAL_RANK") && unknown.contains("4 GPUs"), "{unknown}");
    }
}
