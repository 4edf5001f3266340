// SPDX-License-Identifier: Apache-2.0

/*
Package contention finds fights over fields: two clients that each set a field to a value of their own, as often as the other
one does.

The caller records each write that repeats an earlier one because another client has changed the field. A few of them are
usual; more than Flips within Window are a fight, and the caller pauses. The pauses double, so a fight costs few writes, and it
ends when the field stays as it is for Window.
*/
package contention
