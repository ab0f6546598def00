/* SPDX-License-Identifier: Apache-2.0
 *
 * The name that lustreapi.h had in old programs.
 */
#ifndef SHEEN_LUSTRE_LIBLUSTREAPI_H
#define SHEEN_LUSTRE_LIBLUSTREAPI_H
#include <lustre/lustreapi.h>
#endif
