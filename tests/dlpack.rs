//! DLPack on the host: what another library made, and what it is given.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use typed_nccl::error::AdoptFault;
use typed_nccl::interop::dlpack::{
    self, ConsumerStream, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor, Layout, Managed, ManagedTensor,
};
use typed_nccl::interop::{Tensor, TensorPlace};
use typed_nccl::{
    AnyDevice, DType, DynBuffer, Element, Error, F8E4M3, F8E5M2, Failed, ForeignMemory, Host,
    Result, Seat, Sum, bf16, f16,
};

type Dev = Host<AnyDevice>;

const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };
const READ_ONLY: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

/// dlpack.h's name of each data type that NCCL has.
const TYPES: [(DType, (u8, u8)); 12] = [
    (DType::I8, (0, 8)),
    (DType::U8, (1, 8)),
    (DType::I32, (0, 32)),
    (DType::U32, (1, 32)),
    (DType::I64, (0, 64)),
    (DType::U64, (1, 64)),
    (DType::F16, (2, 16)),
    (DType::F32, (2, 32)),
    (DType::F64, (2, 64)),
    (DType::Bf16, (4, 16)),
    (DType::F8E4M3, (10, 8)),
    (DType::F8E5M2, (12, 8)),
];

fn named(code: u8, bits: u8, lanes: u16) -> DLDataType {
    DLDataType { code, bits, lanes }
}

/// A tensor of another library.
#[derive(Clone, Debug)]
struct Foreign {
    /// Aligned memory, of 8 bytes each.
    memory: Vec<u64>,
    /// Where else the data is.
    data: Option<usize>,
    offset: u64,
    dtype: DLDataType,
    device: DLDevice,
    axes: Option<i32>,
    shape: Option<Vec<i64>>,
    strides: Option<Vec<i64>>,
    flags: u64,
    version: (u32, u32),
    deletes: bool,
}

impl Foreign {
    fn new(dtype: DLDataType, shape: &[i64], memory: Vec<u64>) -> Self {
        Self {
            memory,
            data: None,
            offset: 0,
            dtype,
            device: CPU,
            axes: None,
            shape: Some(shape.to_vec()),
            strides: None,
            flags: 0,
            version: (1, 0),
            deletes: true,
        }
    }

    /// `f32`s in C order.
    fn floats(shape: &[i64], values: &[f32]) -> Self {
        let mut memory = vec![0; values.len().div_ceil(2)];
        for (word, pair) in memory.iter_mut().zip(values.chunks(2)) {
            let [low, high] =
                [pair[0], *pair.get(1).unwrap_or(&0.0)].map(|x| u64::from(x.to_bits()));
            *word = low | high << 32;
        }
        Self::new(named(2, 32, 1), shape, memory)
    }

    /// Hands it out, with how often its deleter was called.
    fn raw<F: Form>(mut self) -> (NonNull<F>, Arc<AtomicUsize>) {
        let deleted = Arc::new(AtomicUsize::new(0));
        let data = self.data.unwrap_or_else(|| self.memory.as_mut_ptr().expose_provenance());
        let numbers = |them: &mut Option<Vec<i64>>| {
            them.as_mut().map_or(std::ptr::null_mut(), |them| them.as_mut_ptr())
        };
        let axes = self.shape.as_ref().map_or(0, |shape| shape.len() as i32);
        let tensor = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(data),
            device: self.device,
            ndim: self.axes.unwrap_or(axes),
            dtype: self.dtype,
            shape: numbers(&mut self.shape),
            strides: numbers(&mut self.strides),
            byte_offset: self.offset,
        };
        let deleter = self.deletes.then_some(delete::<F> as unsafe extern "C" fn(*mut F));
        let made = F::made(tensor, &self, deleter);
        let held = Box::leak(Box::new(Held { made, deleted: deleted.clone(), _foreign: self }));
        (NonNull::from(held).cast(), deleted)
    }
}

#[repr(C)]
struct Held<F> {
    made: F,
    deleted: Arc<AtomicUsize>,
    _foreign: Foreign,
}

unsafe extern "C" fn delete<F>(tensor: *mut F) {
    // SAFETY: what `raw` leaked.
    let held = unsafe { Box::from_raw(tensor.cast::<Held<F>>()) };
    held.deleted.fetch_add(1, SeqCst);
}

/// The two forms, as their producer sees them.
trait Form: ManagedTensor {
    fn made(
        tensor: DLTensor,
        foreign: &Foreign,
        deleter: Option<unsafe extern "C" fn(*mut Self)>,
    ) -> Self;

    fn described(&self) -> &DLTensor;

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

impl Form for DLManagedTensor {
    fn made(
        dl_tensor: DLTensor,
        _: &Foreign,
        deleter: Option<unsafe extern "C" fn(*mut Self)>,
    ) -> Self {
        Self { dl_tensor, manager_ctx: std::ptr::null_mut(), deleter }
    }

    fn described(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

impl Form for DLManagedTensorVersioned {
    fn made(
        dl_tensor: DLTensor,
        foreign: &Foreign,
        deleter: Option<unsafe extern "C" fn(*mut Self)>,
    ) -> Self {
        let (major, minor) = foreign.version;
        Self {
            version: DLPackVersion { major, minor },
            manager_ctx: std::ptr::null_mut(),
            deleter,
            flags: foreign.flags,
            dl_tensor,
        }
    }

    fn described(&self) -> &DLTensor {
        &self.dl_tensor
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
}

fn import<F: Form>(foreign: Foreign) -> (Result<Tensor<Managed>>, Arc<AtomicUsize>) {
    let (raw, deleted) = foreign.raw::<F>();
    // SAFETY: a tensor of the test's; what lies about its memory is not used.
    (unsafe { dlpack::import(raw) }, deleted)
}

fn versioned(foreign: Foreign) -> Result<Tensor<Managed>> {
    import::<DLManagedTensorVersioned>(foreign).0
}

/// Why it was refused. Its deleter was called.
#[track_caller]
fn refused(foreign: Foreign) -> (AdoptFault, String) {
    let (outcome, deleted) = import::<DLManagedTensorVersioned>(foreign);
    let error = outcome.expect_err("it is refused");
    assert_eq!(deleted.load(SeqCst), 1);
    let text = error.to_string();
    assert!(text.contains("tests/dlpack.rs"), "{text}");
    match error {
        Error::NotAdoptable(it) => (it.fault, text),
        other => panic!("{other}"),
    }
}

/// What a consumer does with a tensor that it was given.
struct Consumer<F: Form>(NonNull<F>);

impl<F: Form> Consumer<F> {
    fn tensor(&self) -> &DLTensor {
        // SAFETY: it is there until it is deleted.
        unsafe { self.0.as_ref() }.described()
    }

    fn shape(&self) -> &[i64] {
        let DLTensor { shape, ndim, .. } = *self.tensor();
        // SAFETY: as many as there are axes.
        if ndim == 0 { &[] } else { unsafe { std::slice::from_raw_parts(shape, ndim as usize) } }
    }

    fn strides(&self) -> &[i64] {
        let DLTensor { strides, ndim, .. } = *self.tensor();
        // SAFETY: as many as there are axes.
        if ndim == 0 { &[] } else { unsafe { std::slice::from_raw_parts(strides, ndim as usize) } }
    }

    fn data(&self) -> *mut c_void {
        self.tensor().data.wrapping_byte_add(self.tensor().byte_offset as usize)
    }
}

impl<F: Form> Drop for Consumer<F> {
    fn drop(&mut self) {
        // SAFETY: it is there.
        let deleter = unsafe { self.0.as_ref() }.deleter().expect("there is one");
        // SAFETY: called once.
        unsafe { deleter(self.0.as_ptr()) }
    }
}

#[test]
fn every_data_type_comes_in() {
    let device = Dev::any(0).expect("a device");
    for (dtype, (code, bits)) in TYPES {
        let memory = vec![0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let count = 16 / dtype.size();
        let foreign = Foreign::new(named(code, bits, 1), &[count as i64], memory.clone());
        let (tensor, deleted) = import::<DLManagedTensorVersioned>(foreign);
        let tensor = tensor.expect("a type of NCCL's");
        assert_eq!((tensor.dtype(), tensor.len(), tensor.shape()), (dtype, count, &[count][..]));
        let buffer = tensor.on(&device).expect("on the host");
        assert_eq!(buffer.dtype(), dtype);
        assert_eq!(bytes(buffer), memory);
        assert_eq!(deleted.load(SeqCst), 1);
    }
}

/// The elements of a buffer, eight bytes each.
fn bytes<M>(buffer: DynBuffer<Dev, M>) -> Vec<u64> {
    macro_rules! of {
        ($($type:ty),+) => {
            match buffer.dtype() {
                $(<$type as Element>::DTYPE => {
                    let values = buffer.typed::<$type>().expect("its type").to_vec().expect("values");
                    let bytes = values.len() * size_of::<$type>();
                    // SAFETY: the values' bytes; each type is plain data.
                    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), bytes) };
                    bytes.chunks(8).map(|it| u64::from_le_bytes(it.try_into().expect("8"))).collect()
                })+
                other => panic!("{other}"),
            }
        };
    }
    of!(i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, F8E4M3, F8E5M2)
}

#[test]
fn what_nccl_has_no_type_for_is_named() {
    for (dtype, name) in [
        (named(6, 8, 1), "bool"),
        (named(0, 16, 1), "i16"),
        (named(1, 16, 1), "u16"),
        (named(5, 64, 1), "complex64"),
        (named(18, 32, 1), "bcomplex32"),
        (named(2, 32, 4), "f32 in 4 lanes"),
        (named(2, 32, 0), "f32 in 0 lanes"),
        (named(2, 8, 1), "f8"),
        (named(2, 128, 1), "f128"),
        (named(7, 8, 1), "float8_e3m4"),
        (named(8, 8, 1), "float8_e4m3 with infinities"),
        (named(11, 8, 1), "float8_e4m3fnuz"),
        (named(14, 8, 1), "float8_e8m0fnu"),
        (named(15, 6, 1), "float6_e2m3fn"),
        (named(17, 4, 1), "float4_e2m1fn"),
        (named(0, 4, 1), "i4"),
        (named(3, 64, 1), "type 3 of 64 bits"),
        (named(99, 7, 1), "type 99 of 7 bits"),
    ] {
        let (fault, text) = refused(Foreign::new(dtype, &[2], vec![0; 8]));
        assert!(matches!(fault, AdoptFault::NoSuchType { .. }), "{text}");
        assert!(text.contains(name), "{name}: {text}");
    }
}

#[test]
fn every_dense_order_is_taken() {
    let values: Vec<f32> = (0..24_u8).map(f32::from).collect();
    let dense: [(&[i64], Option<&[i64]>); 6] = [
        (&[2, 3, 4], None),
        (&[2, 3, 4], Some(&[12, 4, 1])),
        (&[2, 3, 4], Some(&[1, 2, 6])),
        (&[2, 3, 4], Some(&[4, 8, 1])),
        (&[24, 1], Some(&[1, 77])),
        (&[1, 24, 1], Some(&[0, 1, 0])),
    ];
    for (shape, strides) in dense {
        let mut foreign = Foreign::floats(shape, &values);
        foreign.strides = strides.map(<[_]>::to_vec);
        let tensor = versioned(foreign).expect("dense");
        assert_eq!(tensor.shape().len(), shape.len());
        assert_eq!(tensor.len(), 24);
    }
    let strided: [(&[i64], &[i64]); 5] = [
        (&[2, 3], &[4, 1]),
        (&[2, 3], &[-3, -1]),
        (&[2, 3], &[0, 1]),
        (&[2, 3], &[i64::MIN, i64::MAX]),
        (&[2, 3], &[1, 1]),
    ];
    for (shape, strides) in strided {
        let mut foreign = Foreign::floats(shape, &values);
        foreign.strides = Some(strides.to_vec());
        let (fault, text) = refused(foreign);
        assert!(matches!(fault, AdoptFault::Strided { .. }), "{strides:?}: {text}");
    }
    let mut scalar = Foreign::floats(&[], &values[..1]);
    scalar.shape = None;
    assert_eq!(versioned(scalar).expect("one element").len(), 1);
}

#[test]
fn what_is_not_there_is_named() {
    let floats = || Foreign::floats(&[2], &[1.0, 2.0]);
    let cases: Vec<(&str, Foreign, fn(&AdoptFault) -> bool)> = vec![
        ("no elements", Foreign::floats(&[3, 0], &[]), |it| matches!(it, AdoptFault::Empty)),
        ("null", Foreign { data: Some(0), ..floats() }, |it| matches!(it, AdoptFault::Null)),
        ("null", Foreign { data: Some(0), offset: 64, ..floats() }, |it| {
            matches!(it, AdoptFault::Null)
        }),
        ("no multiple of 4", Foreign { offset: 2, ..floats() }, |it| {
            matches!(it, AdoptFault::Misaligned { .. })
        }),
        ("more bytes", Foreign { offset: u64::MAX, ..floats() }, |it| {
            matches!(it, AdoptFault::TooLong)
        }),
        ("more bytes", Foreign { shape: Some(vec![i64::MAX, 4]), ..floats() }, |it| {
            matches!(it, AdoptFault::TooLong)
        }),
        ("more bytes", Foreign { shape: Some(vec![i64::MAX / 2]), ..floats() }, |it| {
            matches!(it, AdoptFault::TooLong)
        }),
        ("-1 axes", Foreign { axes: Some(-1), ..floats() }, |it| {
            matches!(it, AdoptFault::NotATensor { .. })
        }),
        ("without a shape", Foreign { axes: Some(2), shape: None, ..floats() }, |it| {
            matches!(it, AdoptFault::NotATensor { .. })
        }),
        ("less than 0", Foreign { shape: Some(vec![-2, -1]), ..floats() }, |it| {
            matches!(it, AdoptFault::NotATensor { .. })
        }),
        (
            "ROCm",
            Foreign { device: DLDevice { device_type: 10, device_id: 1 }, ..floats() },
            |it| matches!(it, AdoptFault::NoSuchDevice { .. }),
        ),
        (
            "CUDA",
            Foreign { device: DLDevice { device_type: 2, device_id: -1 }, ..floats() },
            |it| matches!(it, AdoptFault::NoSuchDevice { .. }),
        ),
        (
            "kind 99",
            Foreign { device: DLDevice { device_type: 99, device_id: 1 }, ..floats() },
            |it| matches!(it, AdoptFault::NoSuchDevice { .. }),
        ),
    ];
    for (part, foreign, is) in cases {
        let (fault, text) = refused(foreign);
        assert!(is(&fault), "{fault:?}");
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_version_says_whether_it_can_be_read() {
    let floats = |version| Foreign { version, ..Foreign::floats(&[2], &[1.0, 2.0]) };
    for known in [(1, 0), (1, 3), (1, 99)] {
        assert!(versioned(floats(known)).is_ok(), "{known:?}");
    }
    for unknown in [(0, 8), (2, 0), (u32::MAX, 0)] {
        let (fault, text) = refused(floats(unknown));
        let (major, minor) = unknown;
        assert_eq!(fault, AdoptFault::DlpackVersion { major, minor });
        assert!(text.contains(&format!("DLPack {major}.{minor}")), "{text}");
    }
}

#[test]
fn a_newer_major_is_not_looked_into() {
    // Only what every version has is there.
    #[repr(C)]
    struct Future {
        version: DLPackVersion,
        context: *mut c_void,
        deleter: unsafe extern "C" fn(*mut Self),
        flags: u64,
    }
    unsafe extern "C" fn delete(it: *mut Future) {
        // SAFETY: what the test leaked.
        drop(unsafe { Box::from_raw(it) });
    }
    let version = DLPackVersion { major: 2, minor: 0 };
    let future = Future { version, context: std::ptr::null_mut(), deleter: delete, flags: 0 };
    let raw = NonNull::from(Box::leak(Box::new(future))).cast::<DLManagedTensorVersioned>();
    // SAFETY: as much as `import` may look at is there.
    match unsafe { dlpack::import(raw) } {
        Err(Error::NotAdoptable(it)) => {
            assert_eq!(it.fault, AdoptFault::DlpackVersion { major: 2, minor: 0 });
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_deleter_is_called_once_wherever_it_ends() {
    fn of<F: Form>() {
        let floats = || Foreign::floats(&[4], &[1.0; 4]);
        let device = Dev::any(0).expect("a device");
        // Dropped, here and on another thread.
        let (tensor, deleted) = import::<F>(floats());
        drop(tensor.expect("floats"));
        assert_eq!(deleted.load(SeqCst), 1);
        let (tensor, deleted) = import::<F>(floats());
        let tensor = tensor.expect("floats");
        thread::spawn(move || drop(tensor)).join().expect("no panic");
        assert_eq!(deleted.load(SeqCst), 1);
        // Through a buffer, and given back.
        let (tensor, deleted) = import::<F>(floats());
        let buffer = tensor.expect("floats").on(&device).expect("on the host");
        assert_eq!(deleted.load(SeqCst), 0);
        let managed: Managed = buffer.into_inner().expect("nothing uses it");
        assert_eq!(deleted.load(SeqCst), 0);
        drop(managed);
        assert_eq!(deleted.load(SeqCst), 1);
        // By an error, and when there is none to call.
        let (outcome, deleted) = import::<F>(Foreign { offset: 1, ..floats() });
        assert!(outcome.is_err());
        assert_eq!(deleted.load(SeqCst), 1);
        let (tensor, deleted) = import::<F>(Foreign { deletes: false, ..floats() });
        drop(tensor.expect("floats"));
        assert_eq!(deleted.load(SeqCst), 0);
    }
    of::<DLManagedTensor>();
    of::<DLManagedTensorVersioned>();
}

#[test]
fn the_deleter_waits_for_what_uses_the_memory() {
    let device = Dev::any(0).expect("a device");
    let stream = device.stream().expect("a stream");
    let (tensor, deleted) = import::<DLManagedTensorVersioned>(Foreign::floats(&[4], &[1.0; 4]));
    let buffer = tensor.expect("floats").on(&device).expect("on the host");
    let mut buffer = buffer.typed::<f32>().expect("f32");
    let (opens, open) = channel::<()>();
    let (tells, told) = channel();
    let launched = stream.launch(&mut buffer, move |x, ()| {
        open.recv().expect("opened");
        x[0] = 2.0;
        tells.send(x[0]).expect("heard");
    });
    launched.expect("enqueued");
    drop(buffer);
    assert_eq!(deleted.load(SeqCst), 0, "something is going to use it");
    opens.send(()).expect("it waits");
    assert_eq!(told.recv_timeout(PATIENCE).expect("it ran"), 2.0);
    stream.sync().expect("no error");
    let started = Instant::now();
    while deleted.load(SeqCst) == 0 {
        assert!(started.elapsed() < PATIENCE, "it is never deleted");
        thread::yield_now();
    }
    assert_eq!(deleted.load(SeqCst), 1);
}

#[test]
fn all_reduce_on_imported_memory() {
    let ranks = Host::spmd(2, |place| {
        let comm = place.init()?;
        let device = comm.device().clone();
        let mine = f32::from(comm.rank().index() as u8) + 1.0;
        let x = versioned(Foreign::floats(&[2, 3], &[mine; 6]))?;
        // Fortran order, and not at the start of its memory.
        let mut y = Foreign::floats(&[3, 2], &[0.0; 8]);
        (y.strides, y.offset) = (Some(vec![1, 3]), 8);
        let (mut y, _) = import::<DLManagedTensor>(y);
        let y = y.as_mut().expect("dense");
        let at = y.address();
        device.lend((&x, &mut *y), |(x, y)| comm.all_reduce(x, y, Sum))?;
        // SAFETY: the loan is over, and the tensor's six floats are there.
        let sums = unsafe { std::slice::from_raw_parts(at as *const f32, 6) };
        assert_eq!(sums, [3.0; 6]);
        // As buffers, in place.
        let mut x = x.on(&device).map_err(Error::from)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(x.typed::<f32>()?.to_vec()?, [3.0; 6]);
        comm.finish()
    });
    ranks.expect("no error");
}

#[test]
fn what_is_read_only_is_only_read() {
    let comm = Seat::local(1).remove(0).init(Host::local().expect("a device")).expect("alone");
    let device = comm.device();
    let read_only = || Foreign { flags: READ_ONLY, ..Foreign::floats(&[2], &[1.0, 2.0]) };
    let mut x = versioned(read_only()).expect("floats");
    let mut y = device.zeros::<f32>(2).expect("memory");
    device.lend(&x, |x| comm.all_reduce(&x.typed::<f32>()?, &mut y, Sum)).expect("it is read");
    assert_eq!(y.to_vec().expect("values"), [1.0, 2.0]);
    let is_read_only = |error: Error| match error {
        Error::NotAdoptable(it) => assert_eq!(it.fault, AdoptFault::ReadOnly),
        other => panic!("{other}"),
    };
    is_read_only(device.lend(&mut x, |_| Ok(())).expect_err("it would be written"));
    let failed = x.on(device).expect_err("a buffer can be written");
    is_read_only(failed.error);
    assert_eq!(failed.value.len(), 2, "it comes back");
    // The old form has no flags, and other flags mean nothing here.
    let (old, _) = import::<DLManagedTensor>(read_only());
    drop(old.expect("floats").on(device).expect("to be written"));
    drop(
        versioned(Foreign { flags: !READ_ONLY, ..read_only() })
            .expect("floats")
            .on(device)
            .expect("too"),
    );
}

#[test]
fn where_it_is_decides_who_can_use_it() {
    let device = Dev::any(0).expect("a device");
    let at = |device_type, device_id| Foreign {
        device: DLDevice { device_type, device_id },
        ..Foreign::floats(&[2], &[1.0, 2.0])
    };
    let pinned = versioned(at(3, 0)).expect("floats");
    assert_eq!(pinned.place(), TensorPlace::OnHost { pinned: true });
    let buffer = pinned.on(&device).expect("it is the host's");
    assert_eq!(buffer.typed::<f32>().expect("f32").to_vec().expect("values"), [1.0, 2.0]);
    for kind in [2, 13] {
        let gpu = versioned(at(kind, 1)).expect("floats");
        assert_eq!(gpu.place(), TensorPlace::OnGpu { ordinal: 1, stream: None });
        let failed = gpu.on(&device).expect_err("a GPU's");
        assert!(failed.error.to_string().contains("GPU 1"), "{}", failed.error);
    }
    let (raw, deleted) = at(2, 0).raw::<DLManagedTensorVersioned>();
    // SAFETY: a tensor of the test's, which nothing uses.
    let gpu = unsafe { dlpack::import_on(raw, ConsumerStream::PER_THREAD) }.expect("floats");
    assert_eq!(gpu.place(), TensorPlace::OnGpu { ordinal: 0, stream: Some(2) });
    drop(gpu);
    assert_eq!(deleted.load(SeqCst), 1);
    let (raw, deleted) = at(1, 0).raw::<DLManagedTensorVersioned>();
    // SAFETY: as above.
    let error = unsafe { dlpack::import_on(raw, ConsumerStream::LEGACY) }.expect_err("a stream");
    assert!(error.to_string().contains("no stream"), "{error}");
    assert_eq!(deleted.load(SeqCst), 1);
}

#[test]
fn streams_by_their_numbers() {
    let of = ConsumerStream::from_protocol;
    assert_eq!(of(None).expect("the default"), ConsumerStream::LEGACY);
    assert_eq!(of(Some(1)).expect("by number"), ConsumerStream::LEGACY);
    assert_eq!(of(Some(2)).expect("by number"), ConsumerStream::PER_THREAD);
    assert_eq!(of(Some(-1)).expect("none"), ConsumerStream::Unordered);
    assert_eq!(of(Some(0x7f00)).expect("a handle").to_protocol(), 0x7f00);
    for number in [0, -2, i64::MIN] {
        let error = of(Some(number)).expect_err("no stream");
        assert!(error.to_string().contains(&format!("stream={number}")), "{error}");
    }
    for stream in [ConsumerStream::LEGACY, ConsumerStream::PER_THREAD, ConsumerStream::Unordered] {
        assert_eq!(of(Some(stream.to_protocol())).expect("its own"), stream);
    }
}

#[test]
fn every_data_type_goes_out_and_comes_back() {
    fn round<T: Element, F: Form>(values: [T; 6], (code, bits): (u8, u8)) {
        let device = Dev::any(0).expect("a device");
        let x = device.from_slice(&values).expect("memory");
        let export = dlpack::export(x, &[2, 3], Layout::F).expect("six elements");
        let consumer = Consumer(export.to_raw::<F>().expect("nothing uses it"));
        let DLTensor { dtype, device: place, .. } = *consumer.tensor();
        assert_eq!((dtype.code, dtype.bits, dtype.lanes), (code, bits, 1));
        assert_eq!((place.device_type, place.device_id), (1, 0));
        assert_eq!((consumer.shape(), consumer.strides()), (&[2, 3][..], &[1, 2][..]));
        // SAFETY: six elements, as the tensor says.
        let theirs = unsafe { std::slice::from_raw_parts_mut(consumer.data().cast::<T>(), 6) };
        assert_eq!(theirs, values);
        theirs.reverse();
        let raw = ManuallyDrop::new(consumer).0;
        // SAFETY: the consumer has no use for it any more.
        let tensor = unsafe { dlpack::import(raw) }.expect("what was exported");
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], Some(&[1, 2][..])));
        let back = tensor.on(&device).expect("the host's").typed::<T>().expect("its type");
        let mut reversed = values;
        reversed.reverse();
        assert_eq!(back.to_vec().expect("values"), reversed);
    }
    fn both<T: Element>(values: [T; 6], name: (u8, u8)) {
        assert!(TYPES.contains(&(T::DTYPE, name)));
        round::<T, DLManagedTensor>(values, name);
        round::<T, DLManagedTensorVersioned>(values, name);
    }
    both([1_i8, 2, 3, 4, 5, 6], (0, 8));
    both([1_u8, 2, 3, 4, 5, 6], (1, 8));
    both([1_i32, 2, 3, 4, 5, 6], (0, 32));
    both([1_u32, 2, 3, 4, 5, 6], (1, 32));
    both([1_i64, 2, 3, 4, 5, 6], (0, 64));
    both([1_u64, 2, 3, 4, 5, 6], (1, 64));
    both([1, 2, 3, 4, 5, 6].map(f16::from_bits), (2, 16));
    both([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 32));
    both([1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 64));
    both([1, 2, 3, 4, 5, 6].map(bf16::from_bits), (4, 16));
    both([1, 2, 3, 4, 5, 6].map(F8E4M3::from_bits), (10, 8));
    both([1, 2, 3, 4, 5, 6].map(F8E5M2::from_bits), (12, 8));
}

#[test]
fn what_an_exported_tensor_says() {
    let device = Dev::any(0).expect("a device");
    let out = |len: usize, shape: &[usize], layout: Layout<'_>| {
        let x = DynBuffer::zeros(&device, DType::I32, len).expect("memory");
        let raw = dlpack::export(x, shape, layout).expect("it fits").to_raw();
        Consumer::<DLManagedTensorVersioned>(raw.expect("nothing uses it"))
    };
    let padded = out(7, &[2, 3], Layout::Strides(&[4, 1]));
    assert_eq!((padded.shape(), padded.strides()), (&[2, 3][..], &[4, 1][..]));
    let scalar = out(1, &[], Layout::C);
    assert_eq!((scalar.tensor().ndim, scalar.data().is_null()), (0, false));
    let nothing = out(0, &[2, 0], Layout::C);
    assert_eq!((nothing.shape(), nothing.data().is_null()), (&[2, 0][..], true));
    // SAFETY: it is there.
    let whole = unsafe { padded.0.as_ref() };
    assert_eq!((whole.version.major, whole.flags), (1, 0));
    // SAFETY: null is nothing to delete.
    unsafe { whole.deleter.expect("there is one")(std::ptr::null_mut()) };

    let x = device.from_slice(&[1, 2, 3]).expect("memory");
    let failed = dlpack::export(x, &[2, 2], Layout::C).expect_err("four of three");
    let text = failed.error.to_string();
    assert!(text.contains("dlpack::export") && text.contains("[2, 2]"), "{text}");
    let failed = dlpack::export(failed.value, &[2, 2], Layout::Strides(&[0, 1]));
    let x = failed.expect_err("elements twice").value;
    let export = dlpack::export(x, &[3], Layout::C).expect("all three");
    // SAFETY: there is no such stream on the host, which says so.
    let outcome = unsafe { export.to_raw_on::<DLManagedTensor>(ConsumerStream::LEGACY) };
    assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
    // As many as there are consumers; what one writes another reads.
    let [first, second] =
        [(); 2].map(|()| Consumer::<DLManagedTensor>(export.to_raw().expect("nothing uses it")));
    drop(export);
    // SAFETY: three elements.
    unsafe { first.data().cast::<i32>().write(9) };
    drop(first);
    // SAFETY: as above.
    assert_eq!(unsafe { second.data().cast::<[i32; 3]>().read() }, [9, 2, 3]);
}

/// Counts its drops.
struct Counted(Vec<i32>, Arc<AtomicUsize>);

// SAFETY: the vector's own elements; nobody else touches them.
unsafe impl ForeignMemory<Dev> for Counted {
    type Elem = i32;

    fn start(&mut self) -> *mut i32 {
        self.0.as_mut_ptr()
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_memory_goes_back_when_the_consumer_deletes_it() {
    struct Sent(Consumer<DLManagedTensor>);
    // SAFETY: a consumer may call the deleter on any thread.
    unsafe impl Send for Sent {}
    let device = Dev::any(0).expect("a device");
    let drops = Arc::new(AtomicUsize::new(0));
    let export = || {
        let x = device.adopt(Counted(vec![1, 2, 3], drops.clone())).expect("memory");
        dlpack::export(x, &[3], Layout::C).expect("all three")
    };
    drop(export());
    assert_eq!(drops.load(SeqCst), 1, "it was not handed over");
    let sent = Sent(Consumer(export().to_raw().expect("nothing uses it")));
    assert_eq!(drops.load(SeqCst), 1);
    thread::spawn(move || drop({ sent }.0)).join().expect("no panic");
    assert_eq!(drops.load(SeqCst), 2);
    // Imported again, and in a buffer: as long as anything names it.
    let raw = export().to_raw::<DLManagedTensorVersioned>().expect("nothing uses it");
    // SAFETY: nobody else has it.
    let buffer = unsafe { dlpack::import(raw) }.expect("ours").on(&device).expect("the host's");
    assert_eq!(drops.load(SeqCst), 2);
    drop(buffer);
    assert_eq!(drops.load(SeqCst), 3);
}

#[test]
fn exporting_waits_for_what_was_enqueued() {
    let device = Dev::any(0).expect("a device");
    let stream = device.stream().expect("a stream");
    let mut x = device.zeros::<u8>(1).expect("memory");
    let (opens, open) = channel::<()>();
    let launched = stream.launch(&mut x, move |x, ()| {
        open.recv().expect("opened");
        x[0] = 7;
    });
    launched.expect("enqueued");
    let opener = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        opens.send(()).expect("it waits");
    });
    let export = dlpack::export(x, &[1], Layout::C).expect("one");
    let consumer = Consumer::<DLManagedTensor>(export.to_raw().expect("no error"));
    // SAFETY: one element.
    assert_eq!(unsafe { consumer.data().cast::<u8>().read() }, 7);
    opener.join().expect("no panic");
}

#[test]
fn our_memory_is_found_again() {
    let mut comm = Seat::local(1).remove(0).init(Host::local().expect("a device")).expect("alone");
    let device = comm.device().clone();
    let x = device.nccl_zeros::<f32>(4).expect("memory");
    let export = dlpack::export(x, &[2, 2], Layout::C).expect("four");
    let consumer = Consumer::<DLManagedTensor>(export.to_raw().expect("nothing uses it"));
    let again = export.to_raw::<DLManagedTensorVersioned>().expect("nothing uses it");
    drop(export);
    // SAFETY: the consumer does nothing with it.
    let tensor = unsafe { dlpack::import(again) }.expect("ours");
    assert_eq!(tensor.address(), consumer.data().addr());
    let buffer = tensor.nccl_on(&device).expect("it is NCCL's").typed::<f32>().expect("f32");
    let window = comm.register_window(buffer).expect("it can back a window");
    drop(window);
    comm.finish().expect("no error");
    let at = consumer.data().addr();
    drop(consumer);

    let refused = |foreign| match versioned(foreign).expect("floats").nccl_on(&device) {
        Err(Failed { error: Error::NotAdoptable(it), .. }) => {
            assert_eq!(it.fault, AdoptFault::NotNccls);
        }
        other => panic!("{other:?}"),
    };
    let floats = || Foreign::floats(&[2], &[1.0, 2.0]);
    refused(floats());
    // What was there has been deleted.
    refused(Foreign { data: Some(at), ..floats() });
}

prop_compose! {
    fn number()(number in prop_oneof![
        -2_i64..6,
        Just(i64::MAX), Just(i64::MIN), Just(i64::MAX / 2), Just(1 << 32),
    ]) -> i64 { number }
}

prop_compose! {
    fn anything()(
        (code, bits, lanes) in (
            0_u8..20,
            prop_oneof![Just(8_u8), Just(16), Just(32), Just(64), any::<u8>()],
            prop_oneof![9 => Just(1_u16), 1 => any::<u16>()],
        ),
        (device_type, device_id) in (prop_oneof![3 => Just(1_u32), 1 => 0_u32..22], -1..3_i32),
        axes in prop_oneof![8 => Just(None), 1 => Just(Some(-1)), 1 => Just(Some(i32::MIN))],
        shape in prop_oneof![
            8 => prop::collection::vec(number(), 0..5).prop_map(Some),
            1 => Just(None),
        ],
        strides in prop::option::of(prop::collection::vec(number(), 5)),
        data in prop_oneof![
            6 => Just(None),
            1 => Just(Some(0)),
            1 => Just(Some(usize::MAX)),
            1 => any::<usize>().prop_map(Some),
        ],
        offset in prop_oneof![6 => Just(0), 1 => 0..64_u64, 1 => any::<u64>()],
        flags in any::<u64>(),
        version in (prop_oneof![8 => Just(1), 1 => any::<u32>()], any::<u32>()),
    ) -> Foreign {
        Foreign {
            memory: vec![0; 1024],
            data,
            offset,
            dtype: named(code, bits, lanes),
            device: DLDevice { device_type, device_id },
            axes,
            shape,
            strides,
            flags,
            version,
            deletes: true,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..Default::default() })]

    /// Nothing that a producer can write makes us panic, or forget its deleter; what is taken is one
    /// piece of memory.
    #[test]
    fn no_description_panics(foreign in anything()) {
        fn of<F: Form>(foreign: Foreign) -> std::result::Result<(), TestCaseError> {
            let (outcome, deleted) = import::<F>(foreign);
            if let Ok(tensor) = outcome {
                prop_assert_eq!(deleted.load(SeqCst), 0);
                prop_assert_eq!(tensor.shape().iter().product::<usize>(), tensor.len());
                let bytes = tensor.len() * tensor.dtype().size();
                prop_assert!(tensor.address().checked_add(bytes).is_some());
                prop_assert_eq!(tensor.address() % tensor.dtype().size(), 0);
            }
            prop_assert_eq!(deleted.load(SeqCst), 1);
            Ok(())
        }
        of::<DLManagedTensor>(foreign.clone())?;
        of::<DLManagedTensorVersioned>(foreign)?;
    }
}
