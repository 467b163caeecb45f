#include "textflag.h"

// func pause(n int)
TEXT ·pause(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
loop:
	PAUSE
	DECQ CX
	JNZ loop
	RET

// func prefetch(p *byte, off, n int64)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	ADDQ off+8(FP), AX
	MOVQ n+16(FP), CX
line:
	PREFETCHT1 (AX)
	ADDQ $64, AX
	SUBQ $64, CX
	JG line
	RET
