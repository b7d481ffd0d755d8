//! Structs are written as far as the caller's `size` goes, and no further.

use nccl_sys::{NCCL_API_MAGIC, SIM_INFO_MAGIC};

use crate::common::*;

/// Bytes that a library must not write.
#[repr(C, align(8))]
struct Guarded([u8; 256]);

const CANARY: u8 = 0xa5;

impl Guarded {
    fn new(size: usize, magic: u32) -> Self {
        let mut this = Self([CANARY; 256]);
        this.0[..8].copy_from_slice(&size.to_ne_bytes());
        this.0[8..12].copy_from_slice(&magic.to_ne_bytes());
        this.0[12..16].copy_from_slice(&22903_u32.to_ne_bytes());
        this
    }

    /// The bytes after the header that were written.
    fn written(&self) -> Vec<usize> {
        (16..256).filter(|at| self.0[*at] != CANARY).collect()
    }
}

#[test]
fn nothing_is_written_behind_a_size() {
    let (fake, api) = double("canary");
    let comm = join(api, 0, 2);
    let query = |guarded: &mut Guarded| {
        call!(api, ncclCommQueryProperties(comm, guarded.0.as_mut_ptr().cast()))
    };
    // Two bytes of padding precede `ginType`; a field that does not fit is not begun.
    for (size, end) in [(16, 16), (19, 16), (20, 20), (34, 34), (36, 34), (39, 34), (40, 40)] {
        let mut guarded = Guarded::new(size, NCCL_API_MAGIC);
        assert_eq!(query(&mut guarded), OK);
        let expected: Vec<usize> = (16..end).filter(|at| !(34..36).contains(at)).collect();
        assert_eq!(guarded.written(), expected, "size {size}");
    }
    // More than there is.
    let mut guarded = Guarded::new(200, NCCL_API_MAGIC);
    assert_eq!(query(&mut guarded), OK);
    assert_eq!(guarded.written().last(), Some(&146));

    let simulate = |guarded: &mut Guarded| {
        assert_eq!(call!(api, ncclGroupStart()), OK);
        call!(api, ncclGroupSimulateEnd(guarded.0.as_mut_ptr().cast()))
    };
    for (size, expected) in [(16, &[][..]), (20, &[16, 17, 18, 19]), (24, &[16, 17, 18, 19])] {
        let mut guarded = Guarded::new(size, SIM_INFO_MAGIC);
        assert_eq!(simulate(&mut guarded), OK);
        assert_eq!(guarded.written(), expected, "size {size}");
    }

    fake.clear();
    let mut foreign = Guarded::new(40, SIM_INFO_MAGIC);
    assert_eq!(query(&mut foreign), IA);
    assert!(foreign.written().is_empty());
    let said = "ncclCommQueryProperties: ncclCommProperties_t has size 40 and magic 0x74685283";
    assert_eq!(fake.misuse(), [said]);
    assert_eq!(fake.log()[0].bytes("props").len(), 16, "no more is read of what it is not");
}
