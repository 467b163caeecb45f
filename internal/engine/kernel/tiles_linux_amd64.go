package kernel

import "golang.org/x/sys/unix"

// mayUseTiles asks for the registers of AMX, which Linux gives only to processes
// that ask, since every signal's frame becomes larger by 8 KiB.
func mayUseTiles() bool {
	const requestPermission, tileData = 0x1023, 18 // asm/prctl.h, asm/fpu/types.h
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}
