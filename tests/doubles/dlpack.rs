//! DLPack tensors on GPUs: in the order of the consumer's stream, both ways, without a copy.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use nccl_sys::Function::ncclAllReduce;
use typed_nccl::interop::dlpack::{
    self, ConsumerStream, DLManagedTensor, DLManagedTensorVersioned, DLTensor, Layout, Managed,
};
use typed_nccl::interop::{Tensor, TensorPlace};
use typed_nccl::{AnyDevice, Cuda, Error, Result, Sum};

use crate::common::{address, alone, calls, clear, handle};
use crate::scenario::{NEWEST, cuda, nccl, on};

#[path = "../dlpack/theirs.rs"]
mod theirs;

use theirs::{named, tensor};

type Gpu = Cuda<AnyDevice>;

/// A tensor of a hundred ones, used on a stream.
fn ones(theirs: &Arc<CudaStream>, stream: ConsumerStream) -> Result<Tensor<Managed>> {
    tensor(theirs.clone_htod(&[1; 100]).expect("there is memory"), stream)
}

/// Whether all work on the stream is over.
fn idle(stream: &CudaStream) -> bool {
    stream.record_event(None).expect("an event").is_complete()
}

fn streams() -> (Arc<CudaStream>, Arc<CudaStream>) {
    let context = CudaContext::new(0).expect("the double's");
    (context.new_stream().expect("a stream"), context.default_stream())
}

/// Functions that move memory, or make the host wait.
const NOT_WANTED: [&str; 6] = [
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuStreamSynchronize",
    "cuEventSynchronize",
];

#[track_caller]
fn assert_no_copy() {
    for function in NOT_WANTED {
        assert!(!cuda().called().contains(&function), "{function}");
    }
}

#[test]
fn an_imported_tensor_is_ordered_by_its_stream() {
    on(NEWEST, || {
        let comm = alone()?;
        let (made, default) = streams();
        for theirs in [made, default] {
            let raw = theirs.cu_stream().addr() as u64;
            let ours = handle(comm.stream())?;
            let mut x = ones(&theirs, named(&theirs))?;
            let place = TensorPlace::OnGpu { ordinal: 0, stream: Some(raw as usize) };
            assert_eq!(x.place(), place);

            // Ours after theirs.
            cuda().hold(raw);
            clear();
            comm.device().lend(&mut x, |x| comm.all_reduce_in_place(x, Sum))?;
            assert_no_copy();
            let call = calls(ncclAllReduce).pop().expect("a call");
            assert_eq!((call.pointer("recvbuff"), call.int("count")), (x.address(), 100));
            assert!(!comm.stream().mark()?.is_reached()?, "ours would overtake theirs");
            cuda().release(raw);
            assert!(comm.stream().mark()?.is_reached()?);

            // Theirs after ours.
            cuda().hold(ours);
            comm.device().lend(&mut x, |x| comm.all_reduce_in_place(x, Sum))?;
            assert!(!idle(&theirs), "theirs would overtake ours");
            cuda().release(ours);
            assert!(idle(&theirs));

            // As a buffer.
            cuda().hold(raw);
            let mut x = x.on(comm.device()).map_err(Error::from)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert!(!comm.stream().mark()?.is_reached()?, "ours would overtake theirs");
            cuda().release(raw);
            drop(x.into_inner().map_err(Error::from)?);
        }
        comm.finish()
    });
}

#[test]
fn a_tensor_without_a_stream_waits_for_nothing() {
    on(NEWEST, || {
        let comm = alone()?;
        let (theirs, _) = streams();
        let x = ones(&theirs, ConsumerStream::Unordered)?;
        cuda().hold(theirs.cu_stream().addr() as u64);
        let mut x = x.on(comm.device()).map_err(Error::from)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert!(comm.stream().mark()?.is_reached()?);
        drop(x);
        cuda().release(theirs.cu_stream().addr() as u64);
        comm.finish()
    });
}

#[test]
fn an_exported_tensor_is_ordered_by_the_consumers_stream() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let ours = device.stream()?;
        let (theirs, _) = streams();
        let export = || {
            let mut x = device.zeros::<f32>(6)?;
            ours.launch(&mut x, |_, _| ())?;
            dlpack::export(x, &[2, 3], Layout::C).map_err(Error::from)
        };
        cuda().hold(handle(&ours)?);
        // SAFETY: nothing uses the exported tensor.
        let raw = unsafe { export()?.to_raw_on::<DLManagedTensor>(ConsumerStream::Unordered) }?;
        // SAFETY: nothing else has it.
        drop(unsafe { dlpack::import(raw) }?);
        assert!(idle(&theirs));
        let export = export()?;
        clear();
        // SAFETY: the stream is the test's.
        let raw = unsafe { export.to_raw_on::<DLManagedTensorVersioned>(named(&theirs)) }?;
        drop(export);
        assert_no_copy();
        assert!(!idle(&theirs), "theirs would overtake ours");
        cuda().release(handle(&ours)?);
        assert!(idle(&theirs));
        // SAFETY: it is there.
        let DLTensor { device: place, data, .. } = unsafe { raw.as_ref() }.dl_tensor;
        assert_eq!((place.device_type, place.device_id, data.is_null()), (2, 0, false));
        // SAFETY: nothing else has it.
        drop(unsafe { dlpack::import(raw) }?);
        Ok(())
    });
}

/// A consumer that orders its uses by itself cannot order them with a graph's.
#[test]
fn memory_in_a_graph_is_not_exported() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let mut x = comm.device().zeros::<f32>(6)?;
        let graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
        let export = dlpack::export(x, &[2, 3], Layout::C)?;
        let theirs = CudaContext::new(0).expect("the double's").new_stream().expect("a stream");
        for stream in [ConsumerStream::Unordered, named(&theirs)] {
            // SAFETY: the stream is the test's; nothing is exported.
            let outcome = unsafe { export.to_raw_on::<DLManagedTensor>(stream) };
            assert_error!(outcome, NotAdoptable, "export", "in use by a graph that captured it");
        }
        drop(graph);
        // SAFETY: nothing uses the exported tensor.
        let raw = unsafe { export.to_raw_on::<DLManagedTensor>(ConsumerStream::Unordered) }?;
        // SAFETY: nothing else has it.
        drop(unsafe { dlpack::import(raw) }?);
        comm.finish()
    });
}

#[test]
fn exported_memory_stays_while_anybody_names_it() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (theirs, _) = streams();
        let before = nccl().live().allocations;
        let x = device.nccl_zeros::<f32>(6)?;
        let export = dlpack::export(x, &[3, 2], Layout::C).map_err(Error::from)?;
        let with = nccl().live().allocations;
        // SAFETY: the stream is the test's.
        let raw = unsafe { export.to_raw_on::<DLManagedTensorVersioned>(named(&theirs)) }?;
        drop(export);
        // SAFETY: nothing else has it.
        let tensor = unsafe { dlpack::import_on(raw, named(&theirs)) }?;
        let at = tensor.address();
        let x = tensor.nccl_on(&device).map_err(Error::from)?.typed::<f32>()?;
        assert_eq!(address(&device.stream()?, &x)? as usize, at);
        assert_eq!(nccl().live().allocations, with);
        drop(x);
        device.trim()?;
        assert_eq!(nccl().live().allocations, before);
        Ok(())
    });
}
