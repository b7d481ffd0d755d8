//! Device communicators.
//!
//! NCCL writes the layout of the release that the requirements state. That is the loaded release,
//! or the newest one known here if the loaded one is newer. In that case kernels are compiled with
//! the loaded release's own headers, so NCCL is asked for its own layout, of which only the size is
//! known here.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use nccl_sys::{
    BOUND, DevCommShape, Version, ncclDevComm_t, ncclDevCommRequirements_t,
    ncclDevResourceRequirements_t, ncclGinBarrierHandle_t, ncclLLA2AHandle_t,
    ncclLsaBarrierHandle_t, ncclMultimemHandle_t, ncclTeam_t, ncclTeamRequirements_t,
};
use typed_nccl_plan::releases;

use super::api::lacking;
use super::comm::Comm;
use super::config::{has, put};
use super::values::number;
use crate::backend::{DeviceBytes, DeviceComms, DeviceShared, Placed, WindowHandles, WindowId};
use crate::cuda::{CudaBackend, CudaStream};
use crate::device_comm::{DevCommView, Listed, Requirements};
use crate::error::{Error, Stale};
use crate::{Properties, Result, Team};

/// A device communicator that NCCL made.
pub(super) struct DeviceComm {
    id: WindowId,
    words: Box<[u64]>,
    /// Records its uses.
    shared: Option<Arc<DeviceShared<CudaBackend>>>,
}

// SAFETY: a device communicator is destroyed once its uses are over, or with its communicator.
unsafe impl DeviceComms for CudaBackend {
    type DevComm<'v> = DevCommView<'v>;
    type Mirror = ();
    type Peers = u64;

    fn peers(
        shared: &DeviceShared<Self>,
        window: WindowId,
        _: &dyn Fn(usize) -> usize,
        name: &'static str,
    ) -> Result<u64> {
        shared.window(window).ok_or_else(|| {
            let why = "its communicator went on without it".to_owned();
            Error::from(Stale { what: "window", name, why })
        })
    }

    fn view_of(shared: &DeviceShared<Self>) -> DevCommView<'_> {
        DevCommView::new(shared)
    }

    fn has_for(comm: &Comm, requirements: &Requirements) -> Result<()> {
        let missing = lacking("a device communicator");
        comm.nccl.api.ncclDevCommCreate().map_err(&missing)?;
        comm.nccl.api.ncclDevCommDestroy().map_err(&missing)?;
        has::<ncclDevCommRequirements_t>(comm.nccl, "size", "a device communicator")?;
        for setting in requirements.settings() {
            has::<ncclDevCommRequirements_t>(comm.nccl, setting.field, &setting.name())?;
        }
        requirements.listed.iter().try_for_each(|listed| match listed {
            Listed::GinBarriers(..) => {
                comm.nccl.needs("`Gin::barriers_of`", releases::SIGNALS_OF_LISTS)
            }
            Listed::Range { .. } => comm.nccl.needs("`Gin::range`", releases::SIGNALS_OF_LISTS),
            _ => Ok(()),
        })
    }

    fn make(
        comm: &Comm,
        id: WindowId,
        requirements: &Requirements,
        known: &Properties,
    ) -> Result<DeviceBytes<()>> {
        let create = comm.nccl.api.ncclDevCommCreate().map_err(lacking("a device communicator"))?;
        let loaded = comm.nccl.api.version();
        comm.gpu.bind()?;
        // On the heap, as NCCL may write to it after a call has returned.
        let slot = Box::leak(Box::new(Slot::new(comm, requirements, known)?));
        let to = slot.words.as_mut_ptr().cast::<ncclDevComm_t>();
        let result = comm.inside(|| {
            // SAFETY: the communicator is alive. The requirements are complete for this release;
            // their lists live in the slot, as does every place that NCCL writes to. `words` has as
            // many bytes as the release writes.
            let result = unsafe { create(comm.handle, &raw const slot.reqs, to) };
            comm.over(result)
        });
        let made = comm.check("ncclDevCommCreate", result);
        let slot = ptr::from_mut(slot);
        // After a failure, a non-blocking communicator may still be working and write there later.
        let slot = (made.is_ok() || !comm.is_adopted).then(|| {
            // SAFETY: it was leaked above, and NCCL has finished with it.
            unsafe { Box::from_raw(slot) }
        });
        made.map_err(|error| comm.poison(error))?;
        let Some(slot) = slot else { return Ok(DeviceBytes::default()) };
        comm.device_comms.borrow_mut().push(DeviceComm {
            id,
            words: slot.words.clone().into(),
            shared: None,
        });
        Ok(DeviceBytes { windows: comm.window_handles.clone(), ..slot.read(loaded) })
    }

    fn keep_device_comm(comm: &Comm, shared: &Arc<DeviceShared<Self>>) {
        let mut all = comm.device_comms.borrow_mut();
        if let Some(known) = all.iter_mut().find(|known| known.id == shared.id) {
            known.shared = Some(shared.clone());
        }
    }

    fn unmake(comm: &Comm, id: WindowId) {
        let mut all = comm.device_comms.borrow_mut();
        let Some(index) = all.iter().position(|known| known.id == id) else { return };
        let known = all.remove(index);
        drop(all);
        comm.gpu.end_graphs();
        comm.destroy(&known);
    }
}

impl Comm {
    /// Whether every kernel launched with a device communicator has ended.
    pub(super) fn no_kernel_has_one(&self) -> bool {
        self.device_comm_users().is_empty()
    }

    /// Streams that may run kernels launched with a device communicator.
    pub(super) fn device_comm_users(&self) -> Vec<Arc<CudaStream>> {
        let all = self.device_comms.borrow();
        let shared = all.iter().filter_map(|known| known.shared.as_ref());
        let streams = shared.flat_map(|shared| shared.carriers());
        streams.filter(|stream| !stream.is_idle()).collect()
    }

    /// Destroys all of them, in the order in which every rank made them. Returns false if a kernel
    /// may still use one, or if NCCL fails.
    pub(super) fn destroy_device_comms(&self) -> bool {
        if !self.no_kernel_has_one() {
            return false;
        }
        let all = self.device_comms.take();
        if all.is_empty() {
            return true;
        }
        self.gpu.end_graphs();
        all.iter().filter(|known| !self.destroy(known)).count() == 0
    }

    fn destroy(&self, known: &DeviceComm) -> bool {
        let _ = self.gpu.bind();
        let destroy = self.nccl.api.ncclDevCommDestroy();
        let destroy = destroy.map_err(lacking("ending a device communicator"));
        let destroyed = destroy.and_then(|destroy| {
            let result = self.inside(|| {
                // SAFETY: it is this communicator's and complete, and no kernel uses it any more.
                let result = unsafe { destroy(self.handle, known.words.as_ptr().cast()) };
                self.over(result)
            });
            self.check("ncclDevCommDestroy", result)
        });
        destroyed.inspect_err(|error| log::warn!("{error}")).is_ok()
    }
}

/// What NCCL reads and writes while it makes a device communicator. It must not move.
struct Slot {
    /// The device communicator.
    words: Vec<u64>,
    len: usize,
    shape: Option<&'static DevCommShape>,
    reqs: ncclDevCommRequirements_t,
    #[expect(dead_code, reason = "NCCL reads it")]
    teams: Vec<ncclTeamRequirements_t>,
    #[expect(dead_code, reason = "NCCL reads it")]
    resources: Vec<ncclDevResourceRequirements_t>,
    /// What NCCL returns for each listed requirement.
    outs: Vec<(Listed, Out)>,
}

// SAFETY: its pointers lead into itself and to nothing that belongs to a thread.
unsafe impl Send for Slot {}

/// What NCCL returns for one requirement; one field of it is used.
struct Out {
    multimem: ncclMultimemHandle_t,
    lsa: ncclLsaBarrierHandle_t,
    gin: ncclGinBarrierHandle_t,
    all_to_all: ncclLLA2AHandle_t,
    buffer: u32,
    signal: u32,
    counter: u32,
}

impl Out {
    fn new() -> Self {
        Self {
            multimem: ncclMultimemHandle_t { mcBasePtr: ptr::null_mut() },
            lsa: ncclLsaBarrierHandle_t { bufHandle: 0, nBarriers: 0 },
            gin: ncclGinBarrierHandle_t { signal0: 0, unused: 0 },
            all_to_all: ncclLLA2AHandle_t { bufHandle: 0, nSlots: 0 },
            buffer: 0,
            signal: 0,
            counter: 0,
        }
    }
}

pub(super) fn team_of(team: &Team) -> ncclTeam_t {
    let (count, rank, stride) = (number(team.size), number(team.rank), number(team.stride));
    ncclTeam_t { nRanks: count, rank, stride }
}

impl Slot {
    fn new(comm: &Comm, requirements: &Requirements, known: &Properties) -> Result<Self> {
        let loaded = comm.nccl.api.version();
        let newest = BOUND.min(loaded);
        let shape = DevCommShape::of(newest);
        let mut len = shape.map_or(0, |shape| shape.size);
        let mut reqs = ncclDevCommRequirements_t::for_library(loaded).unwrap_or_default();
        for setting in requirements.settings() {
            put(&mut reqs, &setting);
        }
        let is_newer = loaded != newest;
        if let Some(bytes) = known.device_comm_bytes.filter(|_| is_newer) {
            (reqs.useRuntimeVersion, len) = (true, bytes);
        }
        let words = vec![0; len.div_ceil(size_of::<u64>()).max(64)];
        let outs = requirements.listed.iter().map(|listed| (listed.clone(), Out::new()));
        let mut outs: Vec<_> = outs.collect();
        let (mut teams, mut resources) = (Vec::new(), Vec::new());
        for (listed, out) in &mut outs {
            match listed {
                Listed::Multimem(team) => teams.push(ncclTeamRequirements_t {
                    next: ptr::null_mut(),
                    team: team_of(team),
                    multimem: true,
                    outMultimemHandle: &raw mut out.multimem,
                }),
                other => resources.push(resource(comm, other, out)?),
            }
        }
        // Each entry points to the next.
        for at in 1..teams.len() {
            teams[at - 1].next = &raw mut teams[at];
        }
        for at in 1..resources.len() {
            resources[at - 1].next = &raw mut resources[at];
        }
        reqs.teamRequirementsList = first(&mut teams);
        reqs.resourceRequirementsList = first(&mut resources);
        let shape = shape.filter(|_| !is_newer);
        Ok(Self { words, len, shape, reqs, teams, resources, outs })
    }

    /// What NCCL has written.
    fn read(self, loaded: Version) -> DeviceBytes<()> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let at = |offset: usize, size: usize| {
            let mut value = [0; 8];
            let from = bytes.get(offset..offset + size)?;
            // Little-endian, as on all machines with GPUs.
            value[..size].copy_from_slice(from);
            Some(u64::from_le_bytes(value))
        };
        let multimem = self.shape.and_then(|shape| at(shape.lsaMultimem, 8)).unwrap_or(0);
        let contexts = self.shape.and_then(|shape| shape.ginContextCount);
        let contexts = contexts.and_then(|(offset, size)| at(offset, size));
        DeviceBytes {
            len: self.len,
            layout: Some(loaded.into()),
            lsa_multimem: NonNull::new(ptr::with_exposed_provenance_mut(multimem as usize)),
            gin_contexts: contexts.and_then(|count| u32::try_from(count).ok()),
            placed: self.outs.iter().map(|(listed, out)| placed(listed, out)).collect(),
            mirror: None,
            words: self.words.into(),
            windows: WindowHandles::default(),
        }
    }
}

fn first<T>(list: &mut Vec<T>) -> *mut T {
    if list.is_empty() { ptr::null_mut() } else { list.as_mut_ptr() }
}

/// A resource as NCCL takes it; its result is written to `out`.
fn resource(comm: &Comm, listed: &Listed, out: &mut Out) -> Result<ncclDevResourceRequirements_t> {
    let api = &comm.nccl.api;
    let missing = lacking("a requirement of a device communicator");
    let mut made = ncclDevResourceRequirements_t::new();
    let (function, result) = match listed {
        Listed::LsaBarriers(team, count) => {
            let ask = api.ncclLsaBarrierCreateRequirement().map_err(&missing)?;
            let (team, count) = (team_of(team), number(*count));
            // SAFETY: both places are valid for what NCCL writes. NCCL keeps the handle's address,
            // and the handle does not move.
            let result = unsafe { ask(team, count, &raw mut out.lsa, &raw mut made) };
            ("ncclLsaBarrierCreateRequirement", result)
        }
        Listed::GinBarriers(team, count) => {
            let ask = api.ncclGinBarrierCreateRequirement().map_err(&missing)?;
            let (team, count) = (team_of(team), number(*count));
            // SAFETY: as above; the communicator is alive.
            let result = unsafe { ask(comm.handle, team, count, &raw mut out.gin, &raw mut made) };
            ("ncclGinBarrierCreateRequirement", result)
        }
        Listed::AllToAll { blocks, elements, size } => {
            let slots = api.ncclLLA2ACalcSlots().map_err(&missing)?;
            let ask = api.ncclLLA2ACreateRequirement().map_err(&missing)?;
            // SAFETY: the function accepts any numbers.
            let slots = unsafe { slots(number(*elements), number(*size)) };
            // SAFETY: as above.
            let result =
                unsafe { ask(number(*blocks), slots, &raw mut out.all_to_all, &raw mut made) };
            ("ncclLLA2ACreateRequirement", result)
        }
        Listed::Buffer { bytes, align } => {
            (made.bufferSize, made.bufferAlign) = (*bytes, *align);
            made.outBufferHandle = &raw mut out.buffer;
            return Ok(made);
        }
        Listed::Range { signals, counters } => {
            (made.ginSignalCount, made.ginCounterCount) = (number(*signals), number(*counters));
            made.outGinSignalStart = &raw mut out.signal;
            made.outGinCounterStart = &raw mut out.counter;
            return Ok(made);
        }
        Listed::Multimem(_) => return Ok(made),
    };
    comm.nccl.check(function, None, result)?;
    Ok(made)
}

fn placed(listed: &Listed, out: &Out) -> Placed {
    match listed {
        Listed::Multimem(_) => Placed::Multimem(NonNull::new(out.multimem.mcBasePtr.cast())),
        Listed::LsaBarriers(..) => Placed::Memory {
            place: out.lsa.bufHandle,
            count: u32::try_from(out.lsa.nBarriers).unwrap_or(0),
        },
        Listed::GinBarriers(..) => Placed::Numbers { signal: out.gin.signal0, counter: 0 },
        Listed::AllToAll { .. } => {
            Placed::Memory { place: out.all_to_all.bufHandle, count: out.all_to_all.nSlots }
        }
        Listed::Buffer { .. } => Placed::Memory { place: out.buffer, count: 1 },
        Listed::Range { .. } => Placed::Numbers { signal: out.signal, counter: out.counter },
    }
}
