//! The host device: ranks as threads or processes, memory as memory. Needs no GPU.

use std::marker::PhantomData;

use super::{AnyDevice, At, Device, DeviceFamily, DeviceTag, Local, Scoped, claim};
use crate::derived::debug;
use crate::host::HostBackend;
use crate::{
    Adopted, Buffer, Element, Failed, ForeignMemory, Lend, LentAs, NcclMem, Pinned, Result, Stream,
    World,
};

/// A host device. Its ordinals are virtual and unlimited: each rank of a communicator needs its
/// own, as it would need its own GPU.
///
/// ```
/// # use typed_nccl::{Host, Result};
/// # fn main() -> Result<()> {
/// let device = Host::local()?;
/// assert_eq!(device.zeros::<f32>(4)?.to_vec()?, [0.0; 4]);
/// let several = Host::open_each(&[0, 1, 7])?; // ordinals known at run time
/// assert_eq!(several.len(), 3);
/// # Ok(())
/// # }
/// ```
pub struct Host<Tag = Local> {
    ordinal: u32,
    tag: PhantomData<fn() -> Tag>,
}

impl<Tag> Host<Tag> {
    const fn new(ordinal: u32) -> Self {
        Self { ordinal, tag: PhantomData }
    }
}

impl Host<Local> {
    /// This process's one host device, ordinal 0.
    ///
    /// # Errors
    /// None on the host; opening a device can fail on GPUs.
    pub fn local() -> Result<Self> {
        Ok(Self::new(0))
    }
}

impl<const N: u32> Host<At<N>> {
    /// Host device `N`.
    ///
    /// # Errors
    /// None on the host; opening a device can fail on GPUs.
    pub fn open() -> Result<Self> {
        Ok(Self::new(N))
    }
}

impl<Tag: DeviceTag> Host<Tag> {
    /// Host device `ordinal`, under a tag of your own.
    ///
    /// # Errors
    /// [`Error::TagTaken`](crate::Error::TagTaken): the tag names another ordinal already.
    pub fn open_as(ordinal: u32) -> Result<Self> {
        claim::<Tag>(Self::KIND, ordinal)?;
        Ok(Self::new(ordinal))
    }
}

impl Host<AnyDevice> {
    /// Host device `ordinal`, known at run time.
    ///
    /// # Errors
    /// None on the host; opening a device can fail on GPUs.
    pub fn any(ordinal: u32) -> Result<Self> {
        Ok(Self::new(ordinal))
    }

    /// Host devices by ordinal.
    ///
    /// # Errors
    /// None on the host; opening a device can fail on GPUs.
    pub fn open_each(ordinals: &[u32]) -> Result<Vec<Self>> {
        ordinals.iter().map(|&ordinal| Self::any(ordinal)).collect()
    }
}

/// The methods of [`Device`], without an import.
impl<Tag> Host<Tag> {
    /// The ordinal of this host device.
    pub fn ordinal(&self) -> u32 {
        self.ordinal
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
    /// None on the host; opening a stream can fail on GPUs.
    pub fn stream(&self) -> Result<Stream<Self>> {
        Device::stream(self)
    }
}

impl<Tag> World for Host<Tag> {
    type Device = Self;
}

// SAFETY: the ordinal is a field that nothing changes.
unsafe impl<Tag> Device for Host<Tag> {
    type Backend = HostBackend;
    const KIND: &'static str = "host";

    fn ordinal(&self) -> u32 {
        self.ordinal
    }
}

impl<Tag> DeviceFamily for Host<Tag> {
    type Scoped<'id> = Host<Scoped<'id>>;

    fn scoped<'id>(ordinal: u32) -> Host<Scoped<'id>> {
        Host::new(ordinal)
    }
}

impl<Tag> Clone for Host<Tag> {
    fn clone(&self) -> Self {
        Self::new(self.ordinal)
    }
}

debug!([Tag] Host<Tag>, self => "host:{}", self.ordinal);
