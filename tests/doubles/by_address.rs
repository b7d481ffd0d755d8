//! The untyped door: the calls that reach NCCL, on whose stream, and what CUDA says of an address.

use std::ffi::c_void;
use std::ptr::with_exposed_provenance_mut;

use cudarc::driver::CudaContext;
use nccl_sys::Function::{self, ncclAllReduce, ncclGroupEnd, ncclGroupStart, ncclRecv, ncclSend};
use typed_nccl::{DType, DynReduceOp, RawOp, RawPart, Stream};

use crate::common::{alone, calls, clear};
use crate::scenario::{NEWEST, nccl, on};

/// Memory and a stream of another library's, on a GPU.
struct Theirs {
    stream: std::sync::Arc<cudarc::driver::CudaStream>,
    memory: cudarc::driver::CudaSlice<f32>,
}

impl Theirs {
    fn on(ordinal: usize) -> Self {
        let context = CudaContext::new(ordinal).expect("the double's");
        let stream = context.new_stream().expect("a stream");
        let memory = stream.clone_htod(&[1_f32; 64]).expect("there is memory");
        stream.synchronize().expect("it is empty");
        Self { stream, memory }
    }

    fn address(&self) -> usize {
        use cudarc::driver::DevicePtr;
        let (address, _ordered) = self.memory.device_ptr(&self.stream);
        address as usize
    }

    fn part(&self, from: usize, len: usize) -> RawPart {
        let start: *mut c_void = with_exposed_provenance_mut(self.address() + 4 * from);
        RawPart::new(start, len, DType::F32)
    }
}

#[test]
fn calls_name_the_address_and_the_stream() {
    on(NEWEST, || {
        let (comm, theirs) = (alone()?, Theirs::on(0));
        let handle = theirs.stream.cu_stream().cast();
        // SAFETY: cudarc's stream stays until the end.
        let stream = unsafe { Stream::from_raw(comm.device(), handle) }?;
        let (x, y) = (theirs.part(0, 8), theirs.part(8, 8));
        let raw = comm.on(&stream).raw();
        clear();
        // SAFETY: the memory stays until the stream is synchronised.
        unsafe { raw.all_reduce(x, y, DynReduceOp::Greatest) }?;
        let [call] = &calls(ncclAllReduce)[..] else { panic!("one call") };
        assert_eq!(call.pointer("sendbuff"), theirs.address());
        assert_eq!(call.pointer("recvbuff"), theirs.address() + 32);
        assert_eq!((call.int("count"), call.int("datatype"), call.int("op")), (8, 7, 2));
        assert_eq!(call.pointer("stream"), handle.addr());

        clear();
        let ops = [RawOp::SendTo { part: x, to: 0 }, RawOp::RecvFrom { part: y, from: 0 }];
        // SAFETY: as above.
        unsafe { raw.group(&ops) }?;
        let issued: Vec<Function> = nccl().called();
        assert_eq!(issued, [ncclGroupStart, ncclSend, ncclRecv, ncclGroupEnd]);
        stream.sync()?;
        comm.finish()
    });
}

#[test]
fn cuda_is_asked_whose_an_address_is() {
    on(NEWEST, || {
        let (comm, here, there) = (alone()?, Theirs::on(0), Theirs::on(2));
        clear();
        let reduce = |send, recv| {
            // SAFETY: it is refused.
            unsafe { comm.raw().all_reduce(send, recv, DynReduceOp::Add) }
        };
        let (near, far) = (here.part(0, 4), there.part(0, 4));
        assert_error!(reduce(near, far), OtherDevice, "all_reduce", "cuda:2", "cuda:0");
        let mut host = [0_f32; 4];
        let hosts = RawPart::new(host.as_mut_ptr().cast(), 4, DType::F32);
        assert_error!(reduce(hosts, near), NotAdoptable, "all_reduce", "memory of the host");
        assert_eq!(nccl().called(), []);
        comm.finish()
    });
}

#[test]
fn a_capture_keeps_no_address() {
    on(NEWEST, || {
        let (mut comm, theirs) = (alone()?, Theirs::on(0));
        let x = theirs.part(0, 4);
        let captured = comm.capture(|g| {
            // SAFETY: it is refused.
            unsafe { g.raw().all_reduce(x, x, DynReduceOp::Add) }
        });
        assert_error!(captured.map(drop), NotCapturable, "all_reduce");
        assert!(calls(ncclAllReduce).is_empty());
        comm.finish()
    });
}
