// SPDX-License-Identifier: Apache-2.0

/*
Package signals ends the program: the first SIGINT or SIGTERM ends a context, the second one ends the process.

# Usage

	ctx, signals, stop := signals.Notify(context.Background())
	defer stop()
	...
	signals.BeforeExit(log.Close)

# Considerations

A hub that receives a signal releases its lease and stops its apps, which takes seconds. A user who presses Ctrl-C a
second time does not want to wait for that, so the process ends with the exit status that the signal has by default.
The function of BeforeExit runs before that: it writes the rest of the log, which names the parts that the hub waited for. It must
return soon.
*/
package signals
