package inside

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// exitedPID reads the process number out of what waitid filled in. The kernel
// puts the union right after three 32-bit words, aligned to a pointer.
func exitedPID(info *unix.Siginfo) int {
	const header = 3 * 4
	align := unsafe.Sizeof(uintptr(0))
	offset := (uintptr(header) + align - 1) / align * align
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}
