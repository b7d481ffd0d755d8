//! A plan's own memory.

use std::sync::Arc;

use super::argument::{Back, PlanOperand};
use super::prepare::Object;
use crate::backend::AllocKind;
use crate::communicator::{CanEnqueue, State};
use crate::element::with_primitive;
use crate::error::{Error, Unsupported};
use crate::memory::Allocation;
use crate::window::Named;
use crate::{Buffer, Communicator, DType, Device, Element, Registration, Result, Transfers, World};

/// One allocation of a plan's local memory.
pub(super) struct Local<W: World> {
    /// Its index in the table.
    pub(super) object: usize,
    /// Whether it is the second of two copies.
    pub(super) is_second: bool,
    allocation: Arc<Allocation<Back<W>>>,
    len: usize,
    window: Option<Named>,
}

impl<W: World> Local<W> {
    /// Allocates all of it; windows are not registered yet.
    pub(super) fn buffers<S: State + CanEnqueue>(
        comm: &Communicator<W, S>,
        objects: &[Object],
    ) -> Result<Vec<Self>> {
        let ordinal = comm.device().ordinal();
        let own = objects.iter().enumerate().filter(|(_, this)| this.is_local && !this.is_window);
        own.map(|(object, &Object { len, dtype, is_second, .. })| {
            let bytes = len.saturating_mul(dtype.size());
            let allocation = Allocation::new(ordinal, bytes, kind(comm))?;
            Ok(Self { object, is_second, allocation, len, window: None })
        })
        .collect()
    }

    /// Registers its windows, and what a communicator that needs it sends: collective.
    pub(super) fn register<S: State + CanEnqueue>(
        comm: &mut Communicator<W, S>,
        objects: &[Object],
        locals: &mut Vec<Self>,
    ) -> Result<()> {
        let bytes = |local: &Self| {
            let bytes = local.len.saturating_mul(objects[local.object].dtype.size());
            Buffer::<u8, W::Device>::from_allocation(local.allocation.clone(), bytes)
        };
        // They last as long as the communicator.
        drop(registered(comm, &locals.iter().map(bytes).collect::<Vec<_>>())?);
        for (object, this) in objects.iter().enumerate() {
            let &Object { len, dtype, is_second, is_local: true, is_window: true, .. } = this
            else {
                continue;
            };
            let (allocation, window) = window(comm, dtype, len)?;
            let window = Some(window);
            locals.push(Self { object, is_second, allocation, len, window });
        }
        Ok(())
    }

    /// Whether its communicator still has it, if it is a window.
    pub(super) fn check<S: State + CanEnqueue>(&self, comm: &Communicator<W, S>) -> Result<()> {
        let Some(window) = &self.window else { return Ok(()) };
        comm.here().core.resources.window(&window.key).map(drop)
    }

    pub(super) fn place(&self) -> PlanOperand<'_, W> {
        let &Self { ref allocation, len, ref window, .. } = self;
        let window = window.as_ref().map(|window| window.id);
        PlanOperand { allocation, start: 0, len, window, is_uneven: false }
    }
}

/// The memory that all transfers of this communicator accept.
pub(super) fn kind<W: World, S: State + CanEnqueue>(comm: &Communicator<W, S>) -> AllocKind {
    match comm.here().core.config.transfers {
        Transfers::Any => AllocKind::Plain,
        Transfers::Registered => AllocKind::Nccl,
    }
}

/// Registers memory of [`kind`], if transfers need that.
pub(super) fn registered<W: World, S: State + CanEnqueue, T: Element>(
    comm: &mut Communicator<W, S>,
    memory: &[Buffer<T, W::Device>],
) -> Result<Vec<Registration<W>>> {
    match kind(comm) {
        AllocKind::Plain => Ok(Vec::new()),
        AllocKind::Nccl => {
            let memory = memory.iter().filter(|one| !one.is_empty());
            memory.map(|one| comm.register_buffer(one)).collect()
        }
    }
}

type Registered<W> = (Arc<Allocation<Back<W>>>, Named);

/// A window whose element type is known at run time. It stays in the communicator's table, like
/// every window whose handle is dropped.
fn window<W: World, S: State + CanEnqueue>(
    comm: &mut Communicator<W, S>,
    dtype: DType,
    len: usize,
) -> Result<Registered<W>> {
    with_primitive!(dtype, T => {
        Ok(comm.window::<T>(len)?.into_registered())
    }, _ => Err(Error::from(Unsupported {
        what: format!("a plan's own window of {dtype}"),
        needs: "a window that the program passes as an argument".to_owned(),
        found: "a local one".to_owned(),
    })))
}
