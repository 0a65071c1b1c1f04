//! Memory for large blocks, straight from the system.
//!
//! A blob goes through a handful of buffers of its size, and growing one of them by a few bytes copies all of it once
//! more. A block that is a mapping of its own does not cost that: the kernel moves the mapping instead of its content,
//! and has the memory back as soon as the block is freed.

use std::alloc::{GlobalAlloc, Layout};

/// Blocks from this size on are mappings of their own.
const LARGE: usize = 4 << 20;

/// What a mapping is aligned to at least: no system has smaller pages.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// An allocator that leaves blocks below 4 MiB to `S`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LargeBlocks<S>(pub S);

#[cfg(target_os = "linux")]
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

#[cfg(not(target_os = "linux"))]
fn is_mapped(_: Layout) -> bool {
    false
}

#[expect(unsafe_code, reason = "what an allocator is")]
// SAFETY: whether a block is a mapping depends on its layout alone, so that each is freed and grown as it was made.
unsafe impl<S: GlobalAlloc> GlobalAlloc for LargeBlocks<S> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of the trait.
        if is_mapped(layout) { mapping::map(layout.size()) } else { unsafe { self.0.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above; what is mapped anew is zero.
        if is_mapped(layout) { mapping::map(layout.size()) } else { unsafe { self.0.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        if is_mapped(layout) {
            unsafe { mapping::unmap(block, layout.size()) }
        } else {
            unsafe { self.0.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that `size` makes a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_mapped(layout), is_mapped(wanted)) {
            // SAFETY: as above.
            (false, false) => unsafe { self.0.realloc(block, layout, size) },
            // SAFETY: the block is a mapping of that size.
            (true, true) => unsafe { mapping::remap(block, layout.size(), size) },
            // SAFETY: both blocks are as large as what is copied, and one of them is new.
            _ => unsafe {
                let moved = self.alloc(wanted);
                if !moved.is_null() {
                    std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

#[cfg(target_os = "linux")]
mod mapping {
    /// A block of `size` zeros; null where there is no memory.
    #[expect(unsafe_code, reason = "a system call")]
    pub fn map(size: usize) -> *mut u8 {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a mapping at a place that the kernel chooses.
        let block = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        if block == libc::MAP_FAILED { std::ptr::null_mut() } else { block.cast() }
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// `block` is from [`map`] or [`remap`], has that size, and is not used afterwards.
    #[expect(unsafe_code, reason = "a system call")]
    pub unsafe fn unmap(block: *mut u8, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(block.cast(), size) };
    }

    /// Moves a block to where it has room for `to` bytes; null, and the block as it was, where there is none.
    ///
    /// # Safety
    /// As for [`unmap`], of `from` bytes.
    #[expect(unsafe_code, reason = "a system call")]
    pub unsafe fn remap(block: *mut u8, from: usize, to: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let moved = unsafe { libc::mremap(block.cast(), from, to, libc::MREMAP_MAYMOVE) };
        if moved == libc::MAP_FAILED { std::ptr::null_mut() } else { moved.cast() }
    }
}

#[cfg(not(target_os = "linux"))]
mod mapping {
    pub fn map(_: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    pub unsafe fn unmap(_: *mut u8, _: usize) {}

    pub unsafe fn remap(_: *mut u8, _: usize, _: usize) -> *mut u8 {
        std::ptr::null_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    const ALLOCATOR: LargeBlocks<System> = LargeBlocks(System);

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    /// Some places in a block of `size` bytes, in every page of it and at its ends.
    fn places(size: usize) -> impl Iterator<Item = usize> {
        (0..size).step_by(1021).chain([size - 1])
    }

    /// A block that is written from end to end.
    #[expect(unsafe_code, reason = "what is tested")]
    fn filled(size: usize) -> *mut u8 {
        // SAFETY: the size is not zero, and the block is that large.
        unsafe {
            let block = ALLOCATOR.alloc(layout(size));
            assert!(!block.is_null());
            places(size).for_each(|at| *block.add(at) = at as u8);
            block
        }
    }

    #[expect(unsafe_code, reason = "what is tested")]
    fn assert_filled(block: *mut u8, filled: usize, size: usize) {
        assert!(!block.is_null());
        // SAFETY: the caller's block is that large.
        places(filled).filter(|at| *at < size).for_each(|at| assert_eq!(unsafe { *block.add(at) }, at as u8));
    }

    #[test]
    #[expect(unsafe_code, reason = "what is tested")]
    fn blocks_keep_their_content_whatever_becomes_of_their_size() {
        let sizes = [1, 100, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 77, 5 * LARGE];
        for from in sizes {
            for to in sizes {
                let block = filled(from);
                // SAFETY: the block has the layout that is given, and the new one is freed.
                unsafe {
                    let moved = ALLOCATOR.realloc(block, layout(from), to);
                    assert_filled(moved, from, to);
                    places(to).for_each(|at| *moved.add(at) = 1);
                    ALLOCATOR.dealloc(moved, layout(to));
                }
            }
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "what is tested")]
    fn zeroed_blocks_are_zero_and_aligned_ones_aligned() {
        for (size, align) in [(LARGE, 4096), (LARGE, 1 << 16), (LARGE + 5, 1), (64, 64)] {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: the block has that layout.
            unsafe {
                let block = ALLOCATOR.alloc_zeroed(layout);
                assert_eq!(block as usize % align, 0);
                assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0));
                ALLOCATOR.dealloc(block, layout);
            }
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "what is tested")]
    fn no_memory_is_null() {
        let impossible = layout(1 << 60);
        // SAFETY: nothing is made of a null block.
        unsafe {
            assert!(ALLOCATOR.alloc(impossible).is_null());
            let block = filled(LARGE);
            assert!(ALLOCATOR.realloc(block, layout(LARGE), 1 << 60).is_null());
            assert_filled(block, LARGE, LARGE);
            ALLOCATOR.dealloc(block, layout(LARGE));
        }
    }
}
