/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEEN_LUSTRE_USER_H
#define SHEEN_LUSTRE_USER_H
#include <linux/lustre/lustre_user.h>
#endif
