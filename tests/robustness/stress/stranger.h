/* SPDX-License-Identifier: MIT */
/* What exec.cpp and the program that it runs have in common. */
#ifndef VIPL_STRESS_STRANGER_H
#define VIPL_STRESS_STRANGER_H

enum { STRANGER_BYTE = 0x11 }; /* what the program's memory is full of */

#endif
