/* SPDX-License-Identifier: Apache-2.0
 *
 * For programs that include it: all that they may use is in lustre_user.h.
 */
#ifndef SHEEN_LINUX_LUSTRE_FID_H
#define SHEEN_LINUX_LUSTRE_FID_H
#include <linux/lustre/lustre_user.h>
#endif
